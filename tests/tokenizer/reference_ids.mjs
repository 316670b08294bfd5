// Prints what the reference tokenizer makes of generated texts, one JSON object a line:
//   {"text": ..., "ids": [...]}            a text and its ids, without BOS or EOS
//   {"bytes": base64, "ids": [...]}        invalid UTF-8; the ids are those of the text with U+FFFD
//   {"special": ..., "ids": [...]}         a text and its ids with BOS and EOS
//   {"decode": [...], "text": ...}         ids and their text, control tokens spelled out
//
//   node reference_ids.mjs FOLDER [COUNT] [SEED] [--ascii-digits]
//
// FOLDER holds tokenizer.json and tokenizer_config.json. --ascii-digits leaves out digits other than
// 0-9 and the two characters whose class JavaScript reads differently from the original library in
// its built-in pre-tokenizers (U+0085, U+FEFF).
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const packages = fileURLToPath(new URL('../npm/', import.meta.url));
const { Tokenizer } = createRequire(packages)('@huggingface/tokenizers');

const args = process.argv.slice(2);
const asciiDigits = args.includes('--ascii-digits');
const [folder, count = '6000', seed = '1'] = args.filter((a) => !a.startsWith('--'));
const read = (name) => JSON.parse(readFileSync(join(folder, name), 'utf8'));
const description = read('tokenizer.json');
let config = {};
try {
  config = read('tokenizer_config.json');
} catch {
  // a folder may come without one
}
const tokenizer = new Tokenizer(description, config);

// mulberry32
let state = Number(seed) >>> 0;
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const repeat = (n, make) => Array.from({ length: n }, make).join('');

// Added in Unicode 15.0 and 15.1: node knows them, PCRE2 10.42 (Unicode 14) does not.
const newerThan14 = [
  [0x0cf3, 0x0cf3], [0x0ece, 0x0ece], [0x2ffc, 0x2fff], [0x31ef, 0x31ef], [0x10efd, 0x10eff],
  [0x1123f, 0x11241], [0x11b00, 0x11b5f], [0x11f00, 0x11f5f], [0x13430, 0x1345f], [0x1b132, 0x1b132],
  [0x1b155, 0x1b155], [0x1d2c0, 0x1d2df], [0x1e030, 0x1e08f], [0x1e4d0, 0x1e4ff], [0x1f6dc, 0x1f6dc],
  [0x1f774, 0x1f77f], [0x1f7d9, 0x1f7d9], [0x1fa75, 0x1fa77], [0x1fa87, 0x1fa88], [0x1faad, 0x1faaf],
  [0x1fabb, 0x1fabf], [0x1face, 0x1facf], [0x1fada, 0x1fadb], [0x1fae8, 0x1fae8], [0x1faf7, 0x1faf8],
  [0x2ebf0, 0x2ee5f], [0x31350, 0x323af],
];

function isUsable(c) {
  if ((c >= 0xd800 && c <= 0xdfff) || newerThan14.some(([low, high]) => c >= low && c <= high)) {
    return false;
  }
  const text = String.fromCodePoint(c);
  return !asciiDigits || (!/[\u0085\uFEFF]/.test(text) && (c < 128 || !/\p{N}/u.test(text)));
}

// Scripts, combining marks, joiners, right-to-left, CJK, emoji, controls, private use.
const blocks = [
  [0x00, 0x7f], [0x00, 0x7f], [0x80, 0xff], [0x100, 0x24f], [0x250, 0x2ff], [0x300, 0x36f],
  [0x370, 0x3ff], [0x400, 0x52f], [0x531, 0x587], [0x591, 0x5f4], [0x600, 0x6ff], [0x900, 0x97f],
  [0x980, 0x9fe], [0xe01, 0xe5b], [0x10a0, 0x10ff], [0x1100, 0x11ff], [0x1780, 0x17f9],
  [0x1e00, 0x1eff], [0x1f00, 0x1fff], [0x2000, 0x206f], [0x2070, 0x20bf], [0x2100, 0x218b],
  [0x2190, 0x23ff], [0x2460, 0x24ff], [0x2500, 0x27bf], [0x3000, 0x30ff], [0x3130, 0x32ff],
  [0x4e00, 0x9ffc], [0xa640, 0xa69f], [0xac00, 0xd7a3], [0xe000, 0xe0ff], [0xf900, 0xfaff],
  [0xfb00, 0xfdff], [0xfe00, 0xfe6f], [0xff00, 0xffef], [0x10330, 0x1034a], [0x1d400, 0x1d7ff],
  [0x1f1e6, 0x1f1ff], [0x1f300, 0x1f64f], [0x1f900, 0x1f9ff], [0x20000, 0x2a6d6],
  [0xe0020, 0xe007f], [0x0, 0x10ffff],
];

function character(block = pick(blocks)) {
  for (;;) {
    const c = block[0] + below(block[1] - block[0] + 1);
    if (isUsable(c)) {
      return String.fromCodePoint(c);
    }
  }
}

const words = (
  'the of and a to in is was he for it with as his on be at by had not are but from or have an they ' +
  'which one you were her all she there would their we him been has when who will more no if out so ' +
  'said what up its about into than them can only other new some could time these two may then do ' +
  'first any my now such like our over man me even most made after also did many before must through ' +
  'antidisestablishmentarianism internationalization Tokenizer HTTPServer camelCase snake_case iPhone ' +
  "don't I'll we've they're it's I'D THEY'RE y'all 'tis o'clock rock'n'roll naïve façade coöperate " +
  'Zürich Łódź Ωmega São résumé Straße İstanbul ǅ ſpecial Привет мир здравствуйте Ελληνικά שלום עולם ' +
  'مرحبا بالعالم नमस्ते दुनिया สวัสดีครับ 你好世界 中文分词 東京都 こんにちは カタカナ 한국어 안녕하세요 ' +
  'Việt Nam tiếng ᚠᛇᚻ ꙮ ﬁne ① Ⅷ ½ x² 𝒳 𝟘 ٣٤٥ ४५६ １２３'
).split(' ').filter((word) => [...word].every((c) => isUsable(c.codePointAt(0))));

const spaces = [' ', ' ', ' ', '  ', '   ', '\n', '\n\n', '\r\n', '\t', ' \n', '\n ', '\u00a0', '\u3000',
  '\u2009', '\u2028', '\u0085', '\ufeff', '\u200b', '\u180e', '\v', '\f', '\u1680', '    ', '\n\n\n', '\r', '']
  .filter((space) => [...space].every((c) => isUsable(c.codePointAt(0))));
const marks = [...'.,;:!?…"\'()[]{}<>/\\|@#$%^&*-_=+~`', '--', '...', '!!', '://', '?!', '—', '«', '»', '、', '。',
  '“', '”', '’', '¿', '€', '\'s', '\'S', '\'ſ', '\'ll', '’s', '<|', '|>', '<0x0A>', '▁', '▁▁', 'Ġ', 'Ċ'];
const emoji = ['😊', '🦙', '👨‍👩‍👧‍👦', '🏳️‍🌈', '👍🏽', '🇩🇪', '🇩🇪🇫🇷', '❤️', '1️⃣', '🧑🏿‍🚀', '☺︎', '🫠', '\u200d'];
const code = ['for (int i = 0; i < n; ++i) {\n    x[i] += 1;\n}\n', 'def f(x):\n\treturn x ** 2\n',
  '<div class="a">text</div>', '{"key": [1, 2.5, null]}', 'https://example.com/a/b?c=d#e', '#include <vector>',
  'SELECT * FROM t WHERE id=1;', '$x^2 + y_1$', 'C:\\Users\\x', '// comment\r\n\r\n', '  - item\n  - item\n'];
const addedTexts = description.added_tokens.map((token) => token.content);

const fragment = () => [
  () => pick(words),
  () => pick(words) + pick(spaces) + pick(words) + ' ' + pick(words),
  () => pick(spaces),
  () => repeat(1 + below(12), () => pick(spaces)),
  () => repeat(1 + below(9), () => String(below(10))),
  () => pick(marks),
  () => repeat(1 + below(5), () => pick(marks)),
  () => pick(emoji),
  () => pick(code),
  () => character(),
  () => character(blocks[0]) + repeat(1 + below(3), () => character([0x300, 0x36f])),
  () => { const block = pick(blocks); return repeat(1 + below(8), () => character(block)); },
][below(12)]();

const kinds = [
  () => repeat(2 + below(14), () => pick(words) + (random() < 0.15 ? pick(marks) : '') + ' '),
  () => repeat(1 + below(10), fragment),
  () => repeat(1 + below(10), fragment),
  () => repeat(1 + below(24), () => character()),
  () => repeat(1 + below(30), () => character([0, 0x10ffff])),
  () => { const one = random() < 0.5 ? character() : pick(spaces); return one.repeat(1 + below(70)); },
  // control tokens inside a text, whole and damaged
  () => repeat(1 + below(4), () => (random() < 0.5 ? fragment() : '') + pick(addedTexts) + (random() < 0.5 ? fragment() : '')),
  () => { const text = pick(addedTexts); const cut = below(text.length + 1); return fragment() + text.slice(0, cut) + pick(addedTexts) + text.slice(cut); },
  () => repeat(1 + below(8), fragment).normalize(pick(['NFC', 'NFD', 'NFKC', 'NFKD'])),
];

function brokenBytes() {
  const bytes = Buffer.from(repeat(1 + below(8), fragment), 'utf8');
  for (let n = 1 + below(4); n > 0 && bytes.length > 0; --n) {
    bytes[below(bytes.length)] = below(256);
  }
  return bytes.subarray(0, 1 + below(bytes.length));
}

// The reference reads BOS from the post-processor alone. The Python library's Llama classes also obey
// add_bos_token, which is all that DeepSeek V3's files say about it.
const bosText = config.bos_token?.content ?? config.bos_token;
const addsBos = config.add_bos_token === true && bosText !== undefined && bosText !== null;

function encode(text, special) {
  const { ids } = tokenizer.encode(text, { add_special_tokens: special });
  if (special && addsBos && description.post_processor?.type === 'ByteLevel') {
    ids.unshift(tokenizer.token_to_id(bosText));
  }
  return ids;
}

const isUsableText = (text) => [...text].every((c) => isUsable(c.codePointAt(0)));
const lines = [];
while (lines.length < Number(count)) {
  const draw = random();
  if (draw < 0.06) {
    const bytes = brokenBytes();
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
    if (isUsableText(text)) {
      lines.push({ bytes: bytes.toString('base64'), ids: encode(text, false) });
    }
  } else if (draw < 0.08) {
    const text = pick(kinds)();
    if (isUsableText(text)) {
      lines.push({ special: text, ids: encode(text, true) });
    }
  } else if (draw < 0.12) {
    const ids = Array.from({ length: 1 + below(24) }, () => below(tokenizer.model.vocab.length))
      .filter((id) => tokenizer.model.vocab[id] !== undefined);
    if (ids.length > 0) {
      lines.push({ decode: ids, text: tokenizer.decode(ids, { clean_up_tokenization_spaces: false }) });
    }
  } else {
    const text = pick(kinds)();
    if (isUsableText(text)) {
      lines.push({ text, ids: encode(text, false) });
    }
  }
}
process.stdout.write(lines.map((line) => JSON.stringify(line) + '\n').join(''));

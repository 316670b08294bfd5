#!/usr/bin/env python3
"""Makes the small tokenizers in tests/tokenizer/data that the tokenizer's tests use.

Each is trained from scratch on the text below by plain byte-pair encoding, then dressed in the
normalizers, pre-tokenizers and decoders of one family. Deterministic; needs nothing but Python 3.

    tools/make_test_tokenizers.py
"""

import json
import pathlib
import re
from collections import Counter

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "tokenizer" / "data"
SPACE = "\u2581"

TEXT = """
The miller woke before the sun and listened to the water. It was late in the autumn, and the stream
that drove the great wheel had grown thin and cold. "Thinner than yesterday," he told the cat, who
had opinions about the weather but kept them to herself. They'd had 12 dry days, then 30, then 365.
He couldn't grind what he couldn't lift, and he wouldn't lift what the neighbours hadn't brought; so
he'd sit, he'd think, and he'd mend the sacks. In the village they said the stone was tired. "Stones
aren't tired," said the girl from the inn, "people are." She'd walked up the hill with 2,048 seeds in
a basket, counting each of them twice: once for the birds, and once for the ground.
    if water > 0: turn(wheel)
    else: wait(days=10)
Was it the weather? Was it the wood? The wheel wouldn't say... They waited together, the three of
them, while the evening went from blue to grey and from grey to black, and the stars came out one by
one over the dark mill. Grüße aus dem Süden, çok güzel, café, naïve, señor. Здравствуй, мир! 你好，世界。
Then, at last, it rained!!! The water rose, the wheel turned, the stone sang, and the flour ran white
and warm into the sacks. "There," said the girl. "It's only water, and it's only time."
"""


def byte_characters():
    """GPT-2's printable character for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters, extra = {}, 0x100
    for byte in range(256):
        if byte in printable:
            characters[byte] = chr(byte)
        else:
            characters[byte] = chr(extra)
            extra += 1
    return characters


def train(words, n_merges):
    """Merges of the most frequent pairs; of equals the one that sorts first."""
    words = [(list(word), count) for word, count in sorted(Counter(words).items())]
    merges = []
    while len(merges) < n_merges:
        pairs = Counter()
        for symbols, count in words:
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for symbols, _ in words:
            i = 0
            while i + 1 < len(symbols):
                if (symbols[i], symbols[i + 1]) == best:
                    symbols[i : i + 2] = ["".join(best)]
                i += 1
    return merges


def vocabulary(first, merges):
    tokens = list(first)
    for left, right in merges:
        if left + right not in tokens:
            tokens.append(left + right)
    return {token: i for i, token in enumerate(tokens)}


def added(vocab, contents, **flags):
    entries = []
    for content, special in contents:
        entry = dict(single_word=False, lstrip=False, rstrip=False, normalized=not special)
        entry.update(id=vocab.get(content, max(vocab.values()) + 1), content=content, special=special)
        entry.update(flags.get(content.strip("<|>").replace(" ", ""), {}))
        vocab.setdefault(content, entry["id"])
        entries.append(entry)
    return entries


def byte_level_tokenizer():
    characters = byte_characters()
    words = re.findall(r"'(?:s|d|ll|t)| ?[^\W\d_]+| ?\d+| ?[^\s\w]+|\s+(?!\S)|\s+", TEXT)
    spelled = ["".join(characters[byte] for byte in word.encode()) for word in words]
    merges = train(spelled, 320)
    return vocabulary(sorted(characters.values()), merges), merges


def sentence_piece_tokenizer():
    words = [SPACE + word for word in TEXT.split()]
    merges = train(words, 320)
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    letters = sorted({letter for word in words for letter in word} - {"你", "世"})
    merges = [merge for merge in merges if not set("".join(merge)) & {"你", "世"}]
    return vocabulary(specials + letters, merges), merges


def write(name, vocab, merges, added_tokens, config, **parts):
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                 end_of_word_suffix=None, fuse_unk=False, byte_fallback=False)
    model.update(parts.pop("model", {}))
    contents = {entry["content"] for entry in added_tokens}
    is_inside = model["byte_fallback"]  # SentencePiece models keep their control tokens in the vocabulary
    model["vocab"] = {k: v for k, v in vocab.items() if is_inside or k not in contents}
    pairs = parts.pop("pairs", True)
    model["merges"] = [list(merge) if pairs else " ".join(merge) for merge in merges]
    document = dict(version="1.0", truncation=None, padding=None, added_tokens=added_tokens,
                    normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None)
    document.update(parts)
    document["model"] = model
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in (("tokenizer.json", document), ("tokenizer_config.json", config)):
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (folder / file).write_text(text + "\n", encoding="utf-8")


def byte_level(**options):
    return dict(dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True), **options)


def split(pattern, behavior="Isolated"):
    return dict(type="Split", pattern=dict(Regex=pattern), behavior=behavior, invert=False)


def sequence(*steps):
    return dict(type="Sequence", pretokenizers=list(steps))


def template(token, i):
    return dict(
        type="TemplateProcessing",
        single=[dict(SpecialToken=dict(id=token, type_id=0)), dict(Sequence=dict(id="A", type_id=0))],
        pair=[dict(SpecialToken=dict(id=token, type_id=0)), dict(Sequence=dict(id="A", type_id=0)),
              dict(Sequence=dict(id="B", type_id=1))],
        special_tokens={token: dict(id=token, ids=[i], tokens=[token])})


def main():
    vocab, merges = byte_level_tokenizer()
    chat = [("<|im_start|>", True), ("<|im_end|>", True), ("<|endoftext|>", True), ("<tool>", False)]
    config = dict(eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False,
                  model_max_length=1000000000000000019884624838656)

    ours = dict(vocab)
    write("falcon_style", ours, merges, added(ours, chat), config, decoder=byte_level(),
          pre_tokenizer=sequence(dict(type="Punctuation", behavior="Contiguous"), byte_level(),
                                 dict(type="Digits", individual_digits=False), split("[0-9][0-9][0-9]")))
    ours = dict(vocab)
    write("smollm_style", ours, merges, added(ours, chat), config, decoder=byte_level(), pairs=False,
          pre_tokenizer=sequence(dict(type="Digits", individual_digits=True), byte_level()))
    ours = dict(vocab)
    flags = dict(im_start=dict(rstrip=True), im_end=dict(lstrip=True))
    write("gpt2_style", ours, merges, added(ours, chat, **flags), config, decoder=byte_level(),
          pre_tokenizer=byte_level(add_prefix_space=True), normalizer=dict(type="NFKC"),
          model=dict(ignore_merges=True))

    vocab, merges = sentence_piece_tokenizer()
    special = [("<unk>", True), ("<s>", True), ("</s>", True)]
    config = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=True,
                  clean_up_tokenization_spaces=False)
    model = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    decoders = [dict(type="Replace", pattern=dict(String=SPACE), content=" "), dict(type="ByteFallback"),
                dict(type="Fuse"), dict(type="Strip", content=" ", start=1, stop=0)]
    ours = dict(vocab)
    write("llama_style", ours, merges, added(ours, special), config, model=model,
          normalizer=dict(type="Sequence", normalizers=[
              dict(type="Prepend", prepend=SPACE),
              dict(type="Replace", pattern=dict(String=" "), content=SPACE)]),
          post_processor=template("<s>", 1), decoder=dict(type="Sequence", decoders=decoders))
    ours = dict(vocab)
    write("metaspace_style", ours, merges, added(ours, special), config, model=model,
          pre_tokenizer=dict(type="Metaspace", replacement=SPACE, prepend_scheme="first", split=False),
          post_processor=template("<s>", 1), decoder=dict(type="Sequence", decoders=decoders))


if __name__ == "__main__":
    main()

// Millrace against llama.cpp (node-llama-cpp) on the same GGUF files, both judged by the reference
// decoder in double precision (tools/golden_logits.py).
//
//   node compare.mjs LOGITS_DUMP WORK_FOLDER [MODEL.gguf...]
//
// For every file, over a text that llama.cpp chose greedily and over random tokens:
// - the mean KL divergence of the next-token distribution from the reference's is at most llama.cpp's
//   own, or below 1e-7, where it is rounding noise of f32 in either program;
// - Millrace's best token is the reference's wherever the reference's margin is over 0.1;
// - Millrace's greedy text is llama.cpp's, but for positions where that margin is below 0.1 or the
//   reference sides with Millrace. For F32 files no exception is made.
// Exit status 77: skipped.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const library = new URL('../../bench/peer/node_modules/node-llama-cpp/dist/index.js', import.meta.url);
if (!existsSync(library)) {
  console.log('skipped: node-llama-cpp is not installed (npm install --no-save --prefix bench/peer)');
  process.exit(77);
}
const { getLlama, LlamaLogLevel } = await import(library);
const [dump, folder] = process.argv.slice(2);
const python = (...args) =>
  execFileSync('/usr/bin/python3', [join(root, 'tools/golden_logits.py'), ...args]);

const nPrompt = 24; // of random files; trained ones start at one token
const nGreedy = 72;
const nRandom = 400;
const noise = 1e-7;

const f32 = (path) => {
  const bytes = readFileSync(path);
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
};

function logSoftmax(row) {
  let peak = -Infinity;
  for (const x of row) peak = Math.max(peak, x);
  let sum = 0;
  for (const x of row) sum += Math.exp(x - peak);
  return Float64Array.from(row, (x) => x - peak - Math.log(sum));
}

function divergence(reference, row) {
  const p = logSoftmax(reference);
  const q = logSoftmax(row);
  return p.reduce((sum, x, i) => sum + Math.exp(x) * (x - q[i]), 0);
}

const argmax = (row) => row.reduce((best, x, i) => (x > row[best] ? i : best), 0);

function margin(row) {
  const best = argmax(row);
  return row.reduce((least, x, i) => (i === best ? least : Math.min(least, row[best] - x)), Infinity);
}

// llama.cpp: a greedy continuation of the prompt, random tokens, and the logits at every position.
async function askLlamaCpp(llama, modelPath, prompt) {
  const model = await llama.loadModel({ modelPath, useMmap: false });
  const context = await model.createContext({ contextSize: 512, sequences: 1, threads: 1 });
  const sequence = context.getSequence();
  const greedy = [...prompt];
  const options = { temperature: 0, yieldEogToken: true };
  for await (const token of sequence.evaluate(prompt, options)) {
    greedy.push(token);
    if (greedy.length >= prompt.length + nGreedy) break;
  }
  const random = Array.from({ length: nRandom }, (_, i) => 3 + ((i * i * 31 + i * 7) % 256));
  const texts = [];
  for (const tokens of [greedy, random]) {
    await sequence.clearHistory();
    const wanted = tokens.map((token) => [token, { generateNext: { logits: true } }]);
    const answers = await sequence.controlledEvaluate(wanted);
    const rows = answers.map((answer) => {
      const row = new Float32Array(answer.next.logits.size);
      for (const [token, logit] of answer.next.logits) row[token] = logit;
      return row;
    });
    texts.push({ tokens, rows });
  }
  await context.dispose();
  await model.dispose();
  return texts;
}

function judge({ name, isExact, nStart, texts }, ours, reference) {
  const n = texts[0].rows[0].length;
  const count = { positions: 0, wrong: 0, theirsWrong: 0, same: 0, differing: 0, close: 0, theirsOff: 0 };
  let [ourKl, theirKl] = [0, 0];
  texts.forEach(({ tokens, rows }, text) => rows.forEach((theirs, i) => {
    const [our, want] = [ours[text], reference[text]].map((all) => all.subarray(i * n, (i + 1) * n));
    ourKl += divergence(want, our);
    theirKl += divergence(want, theirs);
    count.positions++;
    const isClose = margin(want) < 0.1;
    if (argmax(our) !== argmax(want) && !isClose) count.wrong++;
    if (argmax(theirs) !== argmax(want) && !isClose) count.theirsWrong++;
    if (text > 0 || i + 1 < nStart || i + 1 >= tokens.length) return; // not llama.cpp's choice
    if (argmax(our) === tokens[i + 1]) count.same++;
    else if (!isExact && isClose) count.close++;
    else if (!isExact && argmax(our) === argmax(want)) count.theirsOff++;
    else count.differing++;
  }));
  ourKl /= count.positions;
  theirKl /= count.positions;
  const passed = count.differing === 0 && count.wrong === 0 && ourKl <= Math.max(theirKl, noise);
  console.log(
    `${passed ? 'ok  ' : 'FAIL'} ${name.padEnd(22)} KL ours ${ourKl.toExponential(2)}` +
      ` llama.cpp ${theirKl.toExponential(2)}, top-1 wrong ${count.wrong} and ${count.theirsWrong} of ${count.positions};` +
      ` greedy same ${count.same}, close ${count.close}, llama.cpp off ${count.theirsOff},` +
      ` differing ${count.differing}`,
  );
  return passed;
}

mkdirSync(folder, { recursive: true });
python('gguf', folder);
const files = readdirSync(folder).filter((f) => f.endsWith('.gguf')).sort().map((f) => join(folder, f));
for (const name of ['models/demo/demo.gguf', 'models/demo/demo-draft.gguf']) files.push(join(root, name));
files.push(...process.argv.slice(4));
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
const jobs = [];
for (const path of files) {
  const name = basename(path);
  // The tiny story models start from BOS as their author's text does; the others from noise.
  const prompt = name.includes('f32') ? [1] : [];
  const nStart = path.startsWith(folder) ? nPrompt : 1;
  for (let i = prompt.length; i < nStart; i++) prompt.push(3 + ((i * 7919) % 256));
  const isExact = name.includes('f32') ||
    /^(llama2|llama3_2|llama_bias|llama_linear|llama_yarn|qwen2|qwen3)\.gguf$/.test(name);
  const texts = await askLlamaCpp(llama, path, prompt);
  jobs.push({ path, name, isExact, nStart, texts });
}
await llama.dispose();
const out = (name, text, who) => join(folder, `${name}.${text}.${who}`);
python('all-logits', ...jobs.flatMap(({ path, name, texts }) =>
  texts.flatMap(({ tokens }, text) => [path, tokens.join(','), out(name, text, 'reference')])));
let failures = 0;
for (const job of jobs) {
  job.texts.forEach(({ tokens }, text) =>
    execFileSync(dump, [job.path, out(job.name, text, 'ours'), '2', '512', 'default', ...tokens.map(String)]));
  const read = (who) => job.texts.map((_, text) => f32(out(job.name, text, who)));
  if (!judge(job, read('ours'), read('reference'))) failures++;
}
console.log(failures === 0 ? `all ${jobs.length} files agree` : `${failures} of ${jobs.length} files differ`);
process.exit(failures === 0 ? 0 : 1);

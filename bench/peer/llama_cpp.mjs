// One measurement of llama.cpp through node-llama-cpp: prints {"prefill":..,"decode":..} in tokens/s.
//
//   node llama_cpp.mjs MODEL THREADS PROMPT_TOKENS TOKENS DEPTH SEQUENCES [KV_TYPE]
//
// decode: TOKENS tokens of each of SEQUENCES sequences at once, after DEPTH tokens, all together.
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

const [modelPath, ...numbers] = process.argv.slice(2);
const [threads, promptTokens, tokens, depth, nSequences] = numbers.map(Number);
const kvType = numbers[5];

const llama = await getLlama({
  gpu: false, build: 'never', maxThreads: threads, logLevel: LlamaLogLevel.error,
});
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
  contextSize: Math.max(promptTokens, depth) + tokens + 64, batchSize: 512, threads, sequences: nSequences,
  flashAttention: true,  // as llama-server does where it can; a quantised KV cache needs it
  ...(kvType && { experimentalKvCacheKeyType: kvType, experimentalKvCacheValueType: kvType }),
});
const sequences = Array.from({ length: nSequences }, () => context.getSequence());
const size = model.fileInfo.metadata.tokenizer.ggml.tokens.length;
const random = (n) => Array.from({ length: n }, () => Math.floor(Math.random() * size));
const seconds = () => performance.now() / 1e3;

// When each of n + 1 generated tokens came.
async function decode(sequence, prompt, n) {
  const came = [];
  for await (const _ of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    came.push(seconds());
    if (came.length > n) break;
  }
  return { came };
}

await decode(sequences[0], random(16), 2);
await sequences[0].clearHistory();
let prefill = 0;
if (promptTokens > 0) {
  const prompt = random(promptTokens);
  const begin = seconds();
  await sequences[0].evaluateWithoutGeneratingNewTokens(prompt);
  prefill = promptTokens / (seconds() - begin);
  await sequences[0].clearHistory();
}
let speed = 0;
if (tokens > 0) {
  for (const sequence of sequences) {
    if (depth > 1) await sequence.evaluateWithoutGeneratingNewTokens(random(depth - 1));
  }
  const times = await Promise.all(sequences.map((sequence) => decode(sequence, random(1), tokens)));
  // While all of them decode.
  const begin = Math.max(...times.map(({ came }) => came[0]));
  const end = Math.min(...times.map(({ came }) => came.at(-1)));
  const n = times.flatMap(({ came }) => came.filter((at) => at > begin && at <= end)).length;
  speed = n / (end - begin);
}
console.log(JSON.stringify({ prefill, decode: speed }));
await context.dispose();
await model.dispose();
await llama.dispose();

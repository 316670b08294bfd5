// One measurement of llama.cpp through node-llama-cpp: prints {"prefill":..,"decode":..} in tokens/s.
//
//   node llama_cpp.mjs MODEL THREADS PROMPT_TOKENS TOKENS
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

const [modelPath, ...numbers] = process.argv.slice(2);
const [threads, promptTokens, tokens] = numbers.map(Number);

const llama = await getLlama({
  gpu: false, build: 'never', maxThreads: threads, logLevel: LlamaLogLevel.error,
});
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
  contextSize: promptTokens + tokens + 64, batchSize: 512, threads, sequences: 1,
});
const sequence = context.getSequence();
const size = model.fileInfo.metadata.tokenizer.ggml.tokens.length;
const random = (n) => Array.from({ length: n }, () => Math.floor(Math.random() * size));

// Seconds from the first to the last of n + 1 generated tokens.
async function decode(prompt, n) {
  let begin = 0;
  let produced = 0;
  for await (const _ of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    if (produced++ === 0) begin = performance.now();
    if (produced > n) break;
  }
  return (performance.now() - begin) / 1e3;
}

await decode(random(16), 2);
await sequence.clearHistory();
const prompt = random(promptTokens);
const begin = performance.now();
await sequence.evaluateWithoutGeneratingNewTokens(prompt);
const prefill = promptTokens / ((performance.now() - begin) / 1e3);
await sequence.clearHistory();
const speed = tokens / await decode(random(1), tokens);
console.log(JSON.stringify({ prefill, decode: speed }));
await context.dispose();
await model.dispose();
await llama.dispose();

// Many requests of mixed lengths, so many at once and one at a time, to one server in turns: tokens a second,
// time to the first token, between tokens. Lengths are drawn log-uniformly, the same in every run.
//
//   node bench/serving/mixed_load.mjs MILLRACE MODEL [OPTIONS]
import { readOptions } from './options.mjs';
import { Server, freshTokens, median, percentile } from './server.mjs';

const { values, millrace, model, serverOptions } = readOptions({
  requests: 64,
  'at-once': 16,
  rounds: 1,
  prompts: '80:820',  // tokens, least and most
  answers: '16:140',
  'step-ms': 0,  // --max-step-ms of the server
  'no-alone': false,  // nothing one at a time
});
let state = 1;
function drawLength(range) {
  const [least, most] = range.split(':').map(Number);
  state = (state * 1103515245 + 12345) % 2147483648;
  return Math.round(least * (most / least) ** (state / 2147483648));
}
const lengths = Array.from({ length: values.requests }, () =>
  ({ prompt: drawLength(values.prompts), answer: drawLength(values.answers) }));
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const promptTokens = sum(lengths.map(({ prompt }) => prompt));
const answerTokens = sum(lengths.map(({ answer }) => answer));

const server = await Server.start(
  millrace, model, ...serverOptions, '--speculate', 'off', '--no-prefix-cache',
  '--max-step-ms', String(values['step-ms']));

async function run(atOnce) {
  const start = performance.now();
  const left = [...lengths];
  const answers = [];
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (let next; (next = left.shift()) !== undefined;) {
      answers.push(await server.complete(freshTokens(next.prompt), next.answer));
    }
  }));
  const made = sum(answers.map(({ usage }) => usage.completion_tokens));
  if (made !== answerTokens) throw new Error(`${answerTokens} tokens asked for, ${made} came`);
  const seconds = (performance.now() - start) / 1000;
  const first = answers.map((answer) => answer.first);
  const between = answers.flatMap(({ came }) => came.slice(1).map((at, i) => 1000 * (at - came[i])));
  const of = (numbers, digits) =>
    [0.5, 0.9, 0.99].map((share) => percentile(numbers, share).toFixed(digits)).join(' / ');
  console.log(`${atOnce} at once: ${seconds.toFixed(1)} s, ${(answerTokens / seconds).toFixed(1)} tokens/s of answers, ` +
    `${((promptTokens + answerTokens) / seconds).toFixed(1)} in all; first token p50/p90/p99 ${of(first, 2)} s; ` +
    `between tokens ${of(between, 1)} ms`);
  return seconds;
}

console.log(`${lengths.length} requests, ${promptTokens} prompt tokens, ${answerTokens} answer tokens`);
const ratios = [];
for (let round = 0; round < values.rounds; ++round) {
  const together = await run(values['at-once']);
  if (!values['no-alone']) ratios.push(await run(1) / together);
}
await server.stop();
if (ratios.length > 0) {
  console.log(`together against one at a time: ${median(ratios).toFixed(2)} times the tokens/s ` +
    `[${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}]`);
}

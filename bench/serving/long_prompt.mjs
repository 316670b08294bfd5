// What users who are being answered notice of a long prompt: gaps between their tokens while it is computed and
// before and after that, by servers that differ in how long a step may take.
//
//   node bench/serving/long_prompt.mjs MILLRACE MODEL [OPTIONS]
import { setTimeout as sleep } from 'node:timers/promises';
import { readOptions } from './options.mjs';
import { Server, freshTokens, median, percentile } from './server.mjs';

const { values, millrace, model, serverOptions } = readOptions({
  users: 8,
  prompt: 4000,
  rounds: 3,
  'step-ms': 0,  // --max-step-ms of the first server; the second has no limit
});
const options = [...serverOptions, '--speculate', 'off'];
const kinds = {
  chunked: ['--max-step-ms', String(values['step-ms'])],
  'without a limit': ['--policy', 'throughput'],
};

// The milliseconds between one piece of an answer and the next, for gaps that end in [from, to).
function gaps(answers, from, to) {
  return answers.flatMap(({ start, came }) => came.slice(1).flatMap((at, i) =>
    start + at >= from && start + at < to ? [1000 * (at - came[i])] : []));
}

const found = {};
for (let round = 0; round < values.rounds; ++round) {
  for (const [kind, limit] of Object.entries(kinds)) {
    const server = await Server.start(millrace, model, ...options, ...limit);
    const now = () => performance.now() / 1000;
    let ended = 0;
    const stop = new AbortController();
    const users = Array.from({ length: values.users }, async () => {
      const start = now();
      const answer = await server.complete(freshTokens(64), 8_000, {}, stop.signal);
      ++ended;
      return { start, ...answer };
    });
    await sleep(4000);  // all are being answered
    const steady = now();
    await sleep(4000);
    const arrival = now();
    const { first } = await server.complete(freshTokens(values.prompt), 1);
    const computed = now();
    await sleep(4000);
    const end = now();
    if (ended > 0) throw new Error('an answer ended during the measurement');
    stop.abort();
    const answers = await Promise.all(users);
    await server.stop();
    const others = [...gaps(answers, steady, arrival), ...gaps(answers, computed, end)];
    const during = gaps(answers, arrival, computed);
    const of = (found[kind] ??= { median: [], p99: [], ratio: [], first: [] });
    of.median.push(median(others));
    of.p99.push(percentile(during, 0.99));
    of.ratio.push(percentile(during, 0.99) / median(others));
    of.first.push(first);
  }
}
for (const [kind, of] of Object.entries(found)) {
  console.log(`${kind}: between tokens ${median(of.median).toFixed(1)} ms at the median before and after the prompt, ` +
    `${median(of.p99).toFixed(1)} ms at p99 while it is computed, ` +
    `ratio ${median(of.ratio).toFixed(2)} [${of.ratio.map((ratio) => ratio.toFixed(2)).join(' ')}]; ` +
    `first token of the prompt after ${median(of.first).toFixed(2)} s`);
}

// Time of an answer that the response cache has against that of the same answer computed, streamed, in turns
// on one server; with --redis also from a second server that finds it in Redis only.
//
//   node bench/serving/response_cache.mjs MILLRACE MODEL [OPTIONS]
import { setTimeout as sleep } from 'node:timers/promises';
import { readOptions } from './options.mjs';
import { Server, freshTokens, median } from './server.mjs';

const { values, millrace, model, serverOptions } = readOptions({
  requests: 20,
  prompt: 500,
  tokens: 64,
  redis: { default: '', word: 'redis://HOST:PORT/DATABASE' },
});
const redis = values.redis ? ['--response-cache-redis', values.redis] : [];
const options = [...serverOptions, '--no-prefix-cache', ...redis];
const first = await Server.start(millrace, model, '--response-cache', '64', ...options);
const second = values.redis ? await Server.start(millrace, model, ...options) : undefined;
for (const server of second ? [first, second] : []) {
  while (!/redis_up 1/.test(await (await fetch(`${server.base}/metrics`)).text())) await sleep(50);
}
const salt = `bench ${Date.now()}`;  // what an earlier run left in Redis does not count
const times = {};
const ask = async (name, server, prompt, outcome) => {
  const answer = await server.complete(prompt, values.tokens, { cache_salt: salt });
  if (answer.usage.response_cache !== outcome) throw new Error(`${name}: ${answer.usage.response_cache}`);
  times[name] ??= { first: [], whole: [] };
  times[name].first.push(answer.first);
  times[name].whole.push(answer.whole);
};
for (let i = 0; i <= values.requests; ++i) {
  const prompt = freshTokens(values.prompt);
  await ask('computed', first, prompt, 'miss');
  await ask('memory', first, prompt, 'hit');
  if (second) {
    await sleep(50);  // it is written meanwhile
    await ask('redis', second, prompt, 'hit');
  }
  if (i === 0) for (const name of Object.keys(times)) delete times[name];  // the client warms up
}
for (const server of second ? [first, second] : [first]) await server.stop();
console.log(`${values.requests} answers of ${values.tokens} tokens to prompts of ${values.prompt}, medians:`);
const whole = median(times.computed.whole);
for (const [name, { first: firsts, whole: wholes }] of Object.entries(times)) {
  console.log(`${name.padEnd(8)}  first token ${(1000 * median(firsts)).toFixed(2)} ms, ` +
    `whole ${(1000 * median(wholes)).toFixed(2)} ms (${(median(wholes) / whole).toFixed(4)})`);
}

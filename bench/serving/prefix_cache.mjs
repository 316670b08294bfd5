// Time to the first token of requests that share a long beginning, with and without the prefix cache:
// two servers on the same file, one request to each in turns.
//
//   node bench/serving/prefix_cache.mjs MILLRACE MODEL [OPTIONS]
import { readOptions } from './options.mjs';
import { Server, freshTokens, median } from './server.mjs';

const { values, millrace, model, serverOptions } = readOptions({
  requests: 100,
  shared: 1000,  // tokens of the beginning
  own: 50,  // and of the rest
});
const servers = {
  cached: await Server.start(millrace, model, ...serverOptions),
  computed: await Server.start(millrace, model, ...serverOptions, '--no-prefix-cache'),
};
const shared = freshTokens(values.shared);
const seconds = { cached: [], computed: [] };
let hits = 0;
for (let i = 0; i < values.requests; ++i) {
  const prompt = [...shared, ...freshTokens(values.own)];
  for (const name of ['cached', 'computed']) {
    const answer = await servers[name].complete(prompt, 4);
    if (i > 0) seconds[name].push(answer.first);  // the first fills the cache
    if (name === 'cached') hits += answer.usage.prompt_tokens_details.cached_tokens;
  }
}
for (const server of Object.values(servers)) await server.stop();
const [cached, computed] = [median(seconds.cached), median(seconds.computed)];
console.log(`${values.requests} requests of ${values.shared} shared and ${values.own} own tokens, ` +
  `${hits} tokens found`);
console.log(`first token, median after the first request: ${(1000 * cached).toFixed(1)} ms with the ` +
  `cache, ${(1000 * computed).toFixed(1)} ms without: ${(cached / computed).toFixed(3)}`);

// Time to the first token of requests that share a long beginning, with and without the prefix cache:
// two servers on the same file, one request to each in turns.
//
//   node bench/serving/prefix_cache.mjs MILLRACE MODEL [--requests 100] [--shared 1000] [--own 50]
//                                                      [--threads N]
import { parseArgs } from 'node:util';
import { Server, freshTokens, median } from './server.mjs';

const { values, positionals: [millrace, model] } = parseArgs({
  allowPositionals: true,
  options: {
    requests: { type: 'string', default: '100' },
    shared: { type: 'string', default: '1000' },
    own: { type: 'string', default: '50' },
    threads: { type: 'string', default: '0' },
  },
});
if (!model) {
  console.error('usage: node prefix_cache.mjs MILLRACE MODEL [--requests 100] [--shared 1000] [--own 50] [--threads N]');
  process.exit(1);
}
const servers = {
  cached: await Server.start(millrace, model, '-t', values.threads),
  computed: await Server.start(millrace, model, '-t', values.threads, '--no-prefix-cache'),
};
const shared = freshTokens(Number(values.shared));
const seconds = { cached: [], computed: [] };
let hits = 0;
for (let i = 0; i < Number(values.requests); ++i) {
  const prompt = [...shared, ...freshTokens(Number(values.own))];
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

// Time to the first token of a long prompt right after a start: loaded from --kv-disk, where an
// earlier server left it, against computed. A server of its own for each measurement, in turns.
//
//   node bench/serving/disk_cache.mjs MILLRACE MODEL [OPTIONS]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readOptions } from './options.mjs';
import { Server, freshTokens, median } from './server.mjs';

const { values, millrace, model, serverOptions } = readOptions({
  tokens: 4000,
  rounds: 3,
  cold: false,  // the files are put out of the page cache before they are loaded
  folder: { default: tmpdir(), word: 'DIR' },
});
const folder = mkdtempSync(path.join(values.folder, 'millrace-disk-'));
const files = () => readdirSync(folder).map((name) => path.join(folder, name));
const prompt = freshTokens(values.tokens);
const seconds = { loaded: [], computed: [] };
let found = 0;

async function first(...options) {
  const server = await Server.start(millrace, model, ...serverOptions, ...options);
  const answer = await server.complete(prompt, 4);
  await server.stop();
  return { seconds: answer.first, cached: answer.usage.prompt_tokens_details.cached_tokens };
}

try {
  await first('--kv-disk', folder);
  for (let round = 0; round < values.rounds; ++round) {
    if (values.cold) {
      execFileSync('sync');
      for (const file of files()) {
        execFileSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' });
      }
    }
    const loaded = await first('--kv-disk', folder);
    seconds.loaded.push(loaded.seconds);
    found += loaded.cached;
    seconds.computed.push((await first()).seconds);
  }
  const bytes = files().reduce((sum, file) => sum + statSync(file).size, 0);
  const [loaded, computed] = [median(seconds.loaded), median(seconds.computed)];
  console.log(`${values.rounds} starts, a prompt of ${values.tokens} tokens, ` +
    `${found / values.rounds} of them found on disk (${(bytes / 2 ** 20).toFixed(0)} MiB, ` +
    `${values.cold ? 'not ' : ''}in the page cache)`);
  console.log(`first token, median: ${(1000 * loaded).toFixed(1)} ms loaded, ` +
    `${(1000 * computed).toFixed(1)} ms computed: ${(loaded / computed).toFixed(3)}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

// Millrace and llama.cpp on the same GGUF file, in turns, on the same threads: medians and ratios.
//
//   (cd bench/peer && npm install --no-save)
//   node bench/peer/compare.mjs MILLRACE MODEL... [--threads N] [--rounds 5] [-p 512] [-n 64] [-d 0]
//                                 [--sequences 1] [--kv-type TYPE --peer-kv-type TYPE] [--json]
//
// -p 0 or -n 0 leaves a test out; -d: tokens before the decode test; --sequences: decoded at once.
// Types of the KV cache: bf16, int8, ... here, F16, Q8_0, ... there.
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: 'string', default: '0' },
    rounds: { type: 'string', default: '5' },
    prompt: { type: 'string', short: 'p', default: '512' },
    tokens: { type: 'string', short: 'n', default: '64' },
    depth: { type: 'string', short: 'd', default: '0' },
    sequences: { type: 'string', default: '1' },
    'kv-type': { type: 'string' },
    'peer-kv-type': { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const [millrace, ...models] = positionals;
if (models.length === 0) {
  console.error('usage: node compare.mjs MILLRACE MODEL... [--threads N] [--rounds 5] [-p 512] [-n 64] [-d 0] ' +
    '[--sequences 1] [--kv-type TYPE --peer-kv-type TYPE]');
  process.exit(1);
}
const kinds = [...(values.prompt !== '0' ? ['prefill'] : []), ...(values.tokens !== '0' ? ['decode'] : [])];
const peer = fileURLToPath(new URL('llama_cpp.mjs', import.meta.url));
function run(program, args) {
  const { error, status, stdout } = spawnSync(program, args, {
    encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) {  // what is wrong stands on standard error already, if the program ran
    console.error(`compare: ${program} ${args.join(' ')}: ${error?.message ?? `status ${status}`}`);
    process.exit(1);
  }
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

function compare(model) {
  const ours = { prefill: [], decode: [] };
  const theirs = { prefill: [], decode: [] };
  let { threads } = values;
  let info;
  for (let round = 0; round < Number(values.rounds); ++round) {
    info = run(millrace, [
      'bench', model, '-p', values.prompt, '-n', values.tokens, '-d', values.depth,
      '--sequences', values.sequences, '-r', '1', '-t', threads, '--json',
      ...(values['kv-type'] ? ['--kv-type', values['kv-type']] : [])]);
    threads = String(info.threads);
    const other = run(process.execPath, [
      peer, model, threads, values.prompt, values.tokens, values.depth, values.sequences,
      ...(values['peer-kv-type'] ? [values['peer-kv-type']] : [])]);
    ours.prefill.push(info.prefill_tokens_per_second);
    ours.decode.push(info.decode_tokens_per_second);
    theirs.prefill.push(other.prefill);
    theirs.decode.push(other.decode);
  }
  const result = { model, threads: Number(threads), isa: info.isa, rounds: Number(values.rounds) };
  for (const kind of kinds) {
    result[kind] = {
      millrace: median(ours[kind]), llama_cpp: median(theirs[kind]),
      ratio: median(ours[kind]) / median(theirs[kind]), all: { millrace: ours[kind], llama_cpp: theirs[kind] },
    };
  }
  return result;
}

for (const model of models) {
  const result = compare(model);
  if (values.json) {
    console.log(JSON.stringify(result));
    continue;
  }
  console.log(`${model} (${result.threads} threads, ${result.isa}, median of ${result.rounds})`);
  for (const kind of kinds) {
    const { millrace: our, llama_cpp: their, ratio } = result[kind];
    console.log(`  ${kind.padEnd(8)} millrace ${our.toFixed(1).padStart(8)}   llama.cpp `
      + `${their.toFixed(1).padStart(8)} tokens/s   ratio ${ratio.toFixed(2)}`);
  }
}

// Minutes of mixed traffic on one server: memory must have stopped growing by the last fifth (the tables
// of the caches fill before; judged from 5 minutes on), no block of the KV cache may be lost, and
// requests that come again must get the same bytes as the first time.
//
//   node bench/serving/soak.mjs MILLRACE MODEL [OPTIONS] [-- OPTIONS OF SERVE...]
//
// Exit status 1 when any of that fails. The speed of every minute is printed, not judged.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { readOptions } from './options.mjs';
import { Server, freshTokens, post, textOf } from './server.mjs';

const { values, millrace, model, serverOptions, more } = readOptions({
  minutes: 10,
  clients: 16,
  'kv-memory': 64,  // MiB
}, '[-- OPTIONS OF SERVE...]');
const server = await Server.start(
  millrace, model, ...serverOptions, '--kv-memory', String(values['kv-memory']), ...more);
const end = Date.now() + 60_000 * values.minutes;
const counts = { whole: 0, cut: 0, refused: 0, tokens: 0 };
const faults = [];

async function complete(body) {
  const response = await post(`${server.base}/v1/completions`, body);
  if (response.statusCode === 200) return response;
  const text = await textOf(response);
  if (response.statusCode !== 429) throw new Error(`${response.statusCode}: ${text}`);
  counts.refused += 1;
  await sleep(100);
  return null;
}

const pick = (choices) => choices[Math.floor(Math.random() * choices.length)];
const shared = freshTokens(200);

function randomRequest() {
  const own = freshTokens(pick([1, 20, 63, 64, 65, 300]));
  return {
    prompt: Math.random() < 0.3 ? [...shared, ...own] : own,
    max_tokens: pick([1, 8, 40, 120]),
    temperature: pick([0, 0.8]),
    ignore_eos: true,
    ...pick([{}, {}, { logprobs: 3 }, { n: 3, temperature: 1 }, { stop: ['e the'] }, { frequency_penalty: 0.4 }]),
  };
}

// Reads a stream whole, or leaves after a few chunks, which closes the connection.
async function stream(request) {
  const nRead = Math.random() < 0.3 ? pick([1, 2, 6]) : Infinity;
  const response = await complete({ ...request, stream: true });
  if (response === null) return;
  let n = 0;
  for await (const bytes of response) {
    counts.tokens += bytes.toString().split('data: {').length - 1;
    if (++n >= nRead) {
      counts.cut += 1;
      return;
    }
  }
  counts.whole += 1;
}

async function ask(request) {
  const response = await complete(request);
  if (response === null) return null;
  const answer = JSON.parse(await textOf(response));
  counts.whole += 1;
  counts.tokens += answer.usage.completion_tokens;
  return answer;
}

// The same few requests for ever.
const repeated = Array.from({ length: 6 }, (_, i) => ({
  request: { ...randomRequest(), n: 1, temperature: i % 2 ? 0.8 : 0, seed: i, max_tokens: 60 },
}));
async function repeat() {
  const known = pick(repeated);
  const answer = await ask(known.request);
  if (answer === null) return;
  const text = JSON.stringify(answer.choices);
  known.first ??= text;
  if (text !== known.first) faults.push(`a repeated request got ${text} instead of ${known.first}`);
}

async function client() {
  while (Date.now() < end && faults.length === 0) {
    const draw = Math.random();
    if (draw < 0.2) await repeat();
    else if (draw < 0.4) await ask(randomRequest());
    else await stream(randomRequest());
  }
}

const status = (key) => {
  const lines = readFileSync(`/proc/${server.process.pid}/status`, 'utf8').split('\n');
  return Number(lines.find((line) => line.startsWith(`${key}:`)).split(/\s+/)[1]) / 1024;
};
async function blocks() {
  const text = await (await fetch(`${server.base}/metrics`)).text();
  const of = (state) => Number(text.match(new RegExp(`millrace_kv_blocks\\{.*state="${state}".*\\} (\\d+)`))[1]);
  return { free: of('free'), cached: of('cached'), used: of('used') };
}
const sum = ({ free, cached, used }) => free + cached + used;

const atStart = await blocks();
const minutes = [];
const watch = (async () => {
  let before = { ...counts };
  while (Date.now() < end && faults.length === 0) {
    await sleep(Math.min(60_000, Math.max(1, end - Date.now())));
    const now = await blocks();
    if (sum(now) !== sum(atStart)) faults.push(`blocks: ${JSON.stringify(now)}, at the start ${JSON.stringify(atStart)}`);
    minutes.push({ memory: status('RssAnon'), tokens: counts.tokens - before.tokens });
    console.log(`minute ${minutes.length}: ${minutes.at(-1).tokens} tokens, ${counts.whole - before.whole} whole, ` +
      `${counts.cut - before.cut} left early, ${counts.refused - before.refused} refused, ` +
      `${minutes.at(-1).memory.toFixed(1)} MiB anonymous`);
    before = { ...counts };
  }
})();
await Promise.all([watch, ...Array.from({ length: values.clients }, client)]);
await sleep(1000);
const atEnd = await blocks();
if (atEnd.used !== 0) faults.push(`${atEnd.used} blocks are still used by nobody`);
const nLast = Math.ceil(minutes.length / 5);
const [first, last] = [minutes.at(-1 - nLast) ?? minutes[0], minutes.at(-1)].map((minute) => minute.memory);
if (minutes.length >= 5 && last > 1.01 * first + 0.5) faults.push(`memory grew from ${first.toFixed(1)} to ${last.toFixed(1)} MiB`);
await server.stop();
console.log(`${counts.whole} answers whole, ${counts.cut} left early, ${counts.refused} refused; ` +
  `memory ${first.toFixed(1)} MiB before the last fifth, ${last.toFixed(1)} at the end; ` +
  `${sum(atEnd)} blocks, none lost`.replace('none lost', sum(atEnd) === sum(atStart) ? 'none lost' : 'some lost'));
for (const fault of faults) console.error(`FAULT: ${fault}`);
process.exit(faults.length ? 1 : 0);

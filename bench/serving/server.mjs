// A Millrace server of its own on a free loopback port, and figures about it.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

// What is wrong with an argument stands on standard error already: no stack behind it.
process.on('uncaughtException', (error) => {
  console.error(error.isExpected ? error.message : error);
  process.exit(1);
});
function expected(message) {
  return Object.assign(new Error(message), { isExpected: true });
}

// The response to a POST of JSON: its statusCode, and its body as an async iterable of buffers. However long the server
// is silent: fetch gives up after five minutes, which a long prompt on a small machine may take.
const agent = new http.Agent({ keepAlive: true });
export function post(url, fields, signal = undefined) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: 'POST', agent, signal }, resolve);
    request.on('error', reject);
    request.end(JSON.stringify(fields));
  });
}

export async function textOf(response) {
  let text = '';
  for await (const bytes of response.setEncoding('utf8')) text += bytes;
  return text;
}

export class Server {
  static async start(millrace, model, ...options) {
    const server = new Server();
    server.folder = mkdtempSync(path.join(tmpdir(), 'millrace-bench-'));
    const portFile = path.join(server.folder, 'port');
    server.process = spawn(
      millrace, ['serve', model, '--port', '0', '--port-file', portFile, ...options],
      { stdio: ['ignore', 'ignore', 'inherit'] });
    const kill = () => server.process.kill();  // when a bench fails
    process.on('exit', kill);
    server.process.on('exit', () => process.off('exit', kill));
    server.exited = new Promise((resolve) => { server.process.on('exit', resolve); });
    let startError;
    server.process.on('error', (error) => { startError = error; });
    const isReady = async () => existsSync(portFile) &&
      (await fetch(`${server.url(portFile)}/health/ready`)).status === 200;
    while (!await isReady()) {
      if (startError ?? server.process.exitCode !== null) {
        rmSync(server.folder, { recursive: true, force: true });
        throw expected(startError?.message ?? `the server ended: ${millrace} serve ${model}`);
      }
      await sleep(50);
    }
    return server;
  }

  url(portFile) {
    this.base ??= `http://127.0.0.1:${readFileSync(portFile, 'utf8').trim()}`;
    return this.base;
  }

  async stop() {
    this.process.kill('SIGTERM');
    await this.exited;
    rmSync(this.folder, { recursive: true, force: true });
  }

  // A streamed completion of a prompt of token ids: seconds to the first token and to the end, the seconds
  // at which each piece of the answer came, usage. After `signal` has been aborted, only what came before.
  async complete(prompt, n, fields = {}, signal = undefined) {
    const start = performance.now();
    const seconds = () => (performance.now() - start) / 1000;
    const response = await post(`${this.base}/v1/completions`, {
      prompt, max_tokens: n, temperature: 0, ignore_eos: true, stream: true,
      stream_options: { include_usage: true }, ...fields,
    }, signal);
    if (response.statusCode !== 200) throw new Error(await textOf(response));
    const came = [];
    const chunks = [];
    let text = '';
    try {
      for await (const bytes of response) {
        text += bytes.toString();
        const events = text.split('\n\n');
        text = events.pop();
        for (const event of events.filter((line) => line.startsWith('data: {'))) {
          chunks.push(JSON.parse(event.slice(6)));
          if (chunks.at(-1).choices.length > 0) came.push(seconds());
        }
      }
    } catch (error) {
      if (!signal?.aborted) throw error;
      return { first: came[0], came };
    }
    return { first: came[0], came, whole: seconds(), usage: chunks.at(-1).usage };
  }
}

export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// The smallest number that at least this share of the numbers do not exceed.
export function percentile(numbers, share) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

// Token ids that nobody has sent before; every id is an ordinary token of every vocabulary used here.
let drawn = 0;
export function freshTokens(n) {
  return Array.from({ length: n }, () => {
    drawn = (drawn * 1103515245 + 12345) % 2147483648;
    return 300 + Math.floor(drawn / 65536) % 1500;
  });
}

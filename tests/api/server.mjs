// Starts `millrace serve demo` on a free loopback port, and stops it.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const require = createRequire(new URL('../npm/package.json', import.meta.url));
export const OpenAI = require('openai');
const millrace = process.env.MILLRACE;

export class Server {
  static async start(...options) {
    const server = new Server();
    server.folder = mkdtempSync(path.join(tmpdir(), 'millrace-api-'));
    const portFile = path.join(server.folder, 'port');
    server.log = '';
    server.process = spawn(
      // One compute thread: on a busy machine two that wait for each other are much slower.
      millrace, ['serve', 'demo', '--port', '0', '--port-file', portFile, '-t', '1', ...options],
      { stdio: ['ignore', 'ignore', 'pipe'] });
    server.process.stderr.on('data', (bytes) => { server.log += bytes; });
    server.exited = new Promise((resolve) => {
      server.process.on('exit', (code, signal) => resolve({ code, signal }));
    });
    for (let i = 0; i < 600 && !existsSync(portFile); ++i) {
      if (server.process.exitCode !== null) throw new Error(server.log);
      await sleep(50);
    }
    server.url = `http://127.0.0.1:${readFileSync(portFile, 'utf8').trim()}`;
    server.client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    for (let i = 0; i < 600; ++i) {
      if ((await fetch(`${server.url}/health/ready`)).status === 200) return server;
      await sleep(50);
    }
    throw new Error(`not ready: ${server.log}`);
  }

  async stop() {
    this.process.kill('SIGTERM');
    const end = await this.exited;
    rmSync(this.folder, { recursive: true, force: true });
    return end;
  }

  post(route, body, options = {}) {
    return fetch(this.url + route, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...options.headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      signal: options.signal,
    });
  }

  // The value of one series, 0 when it is not there.
  async metric(series) {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const line = text.split('\n').find((candidate) => candidate.startsWith(`${series} `));
    return line ? Number(line.split(' ').at(-1)) : 0;
  }

  // Waits until a metric satisfies the condition.
  async until(series, condition) {
    for (let i = 0; i < 400; ++i) {
      if (condition(await this.metric(series))) return true;
      await sleep(25);
    }
    return false;
  }
}

// All text of a chat stream, its chunks and its finish reason.
export async function collect(stream) {
  const result = { text: '', chunks: [], reason: null, usage: null };
  for await (const chunk of stream) {
    result.chunks.push(chunk);
    const choice = chunk.choices[0];
    result.text += choice?.delta?.content ?? choice?.text ?? '';
    result.reason = choice?.finish_reason ?? result.reason;
    result.usage = chunk.usage ?? result.usage;
  }
  return result;
}

// The tokens of a usage. How many came from the cache or were guessed depends on what was asked before.
export const tokens = ({ prompt_tokens, completion_tokens, total_tokens }) =>
  ({ prompt_tokens, completion_tokens, total_tokens });

export { sleep };

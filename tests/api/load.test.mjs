// Many clients at once, clients that leave, too many clients, and the end of the server.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { OpenAI, Server, collect, sleep, tokens } from './server.mjs';

const user = (content) => [{ role: 'user', content }];

describe('many clients', () => {
  let server;
  before(async () => { server = await Server.start(); });
  after(() => server.stop());

  test('32 streams of mixed lengths each say what they say alone', async () => {
    const requests = Array.from({ length: 32 }, (_, i) => ({
      model: 'demo',
      messages: user(`${'Tell me a story about a fox. '.repeat(1 + (i * 7) % 23)}Number ${i}.`),
      max_tokens: 8 + (i * 13) % 57,
      temperature: i % 2 === 0 ? 0 : 0.8,
      seed: i,
      stream: true,
      stream_options: { include_usage: true },
    }));
    const ask = async (request) => collect(await server.client.chat.completions.create(request));
    const together = await Promise.all(requests.map(ask));
    for (const [i, request] of requests.entries()) {
      const alone = await ask(request);
      assert.equal(together[i].text, alone.text, `request ${i}`);
      assert.equal(together[i].reason, alone.reason);
      assert.deepEqual(tokens(together[i].usage), tokens(alone.usage));
    }
  });

  const cancelled = 'millrace_choices_finished_total{reason="cancelled"}';
  const endless = { model: 'demo', messages: user('Tell me a story.'), max_tokens: 1500, ignore_eos: true };
  for (const stream of [true, false]) {
    test(`a client that leaves ends its request (stream: ${stream})`, async () => {
      const before = await server.metric(cancelled);
      const abort = new AbortController();
      const request = server.post('/v1/chat/completions', { ...endless, stream }, { signal: abort.signal })
        .then(async (response) => { await response.body.getReader().read(); return 'read'; })
        .catch(() => 'aborted');
      assert.ok(await server.until('millrace_sequences_running', (value) => value === 1));
      if (stream) await request;
      abort.abort();
      await request;
      assert.ok(await server.until(cancelled, (value) => value === before + 1));
      assert.ok(await server.until('millrace_sequences_running', (value) => value === 0));
    });
  }
});

test('more clients than the queue holds get 429 and the others their answer', async () => {
  const server = await Server.start('--max-sequences', '1', '--max-waiting', '2');
  try {
    const request = { model: 'demo', messages: user('Tell me a story.'), max_tokens: 60, ignore_eos: true };
    const responses = await Promise.all(
      Array.from({ length: 12 }, () => server.post('/v1/chat/completions', request)));
    const refused = responses.filter((response) => response.status === 429);
    const served = responses.filter((response) => response.status === 200);
    assert.ok(refused.length > 0);
    assert.ok(served.length > 0);
    assert.equal(refused.length + served.length, 12);
    assert.ok(refused.every((response) => response.headers.get('retry-after') === '1'));
    for (const response of served) {
      assert.equal((await response.json()).usage.completion_tokens, 60);
    }
  } finally {
    await server.stop();
  }
});

test('a deadline ends a request that waits with 504, and one that runs with what it has', async () => {
  const server = await Server.start('--max-sequences', '1');
  try {
    const long = {
      model: 'demo', messages: user('Tell me a story.'), max_tokens: 1900, ignore_eos: true, temperature: 0,
    };
    const first = collect(await server.client.chat.completions.create({ ...long, stream: true }));
    await assert.rejects(
      server.client.chat.completions.create({ ...long, timeout_ms: 5 }),
      (error) => error instanceof OpenAI.InternalServerError && error.status === 504
        && error.code === 'deadline_exceeded' && /5 ms \(timeout_ms\)/.test(error.message));
    assert.equal((await first).reason, 'length');
    // How fast the machine is decides which deadline lies between the first token and the last.
    let answer = null;
    for (let timeout_ms = 10; answer === null; timeout_ms *= 2) {
      answer = await server.client.chat.completions.create({ ...long, n: 4, timeout_ms }).catch((error) => {
        assert.equal(error.status, 504);
        return null;
      });
    }
    assert.equal(answer.choices[3].finish_reason, 'timeout');
    assert.ok(answer.usage.completion_tokens > 0);
    assert.ok(answer.usage.completion_tokens < 4 * 1900);
    assert.ok(await server.metric('millrace_choices_finished_total{reason="timeout"}') >= 2);
    assert.ok(await server.until('millrace_sequences_running', (value) => value === 0));
    assert.equal(await server.metric('millrace_kv_blocks{state="used"}'), 0);
  } finally {
    await server.stop();
  }
});

test('with --fair a request does not wait for the flood of another key', async () => {
  const file = path.join(tmpdir(), `millrace-fair-keys-${process.pid}`);
  writeFileSync(file, 'sk-a\nsk-b\n');
  const server = await Server.start('--max-sequences', '1', '--api-key-file', file, '--fair');
  try {
    const headers = (key) => ({ headers: { Authorization: `Bearer ${key}` } });
    const ask = (key, words, max_tokens) => server.post('/v1/chat/completions', {
      model: 'demo', messages: user(words), max_tokens, ignore_eos: true, priority: key === 'sk-a' ? -1000 : 0,
    }, headers(key));
    const waiting = async () => {
      const text = await (await fetch(`${server.url}/metrics`, headers('sk-a'))).text();
      return Number(/^millrace_sequences_waiting (\d+)/m.exec(text)[1]);
    };
    const flood = Array.from({ length: 40 }, (_, i) => ask('sk-a', `Story ${i}.`, 400));
    while (await waiting() < 20) await sleep(5);
    assert.equal((await ask('sk-b', 'Hi', 1)).status, 200);
    assert.ok(await waiting() >= 10);
    for (const response of await Promise.all(flood)) assert.equal(response.status, 200);
  } finally {
    await server.stop();
  }
});

test('more choices than may ever wait are a mistake of the request', async () => {
  const server = await Server.start('--max-sequences', '1', '--max-waiting', '2');
  try {
    const request = { model: 'demo', messages: user('Hi'), max_tokens: 1 };
    const response = await server.post('/v1/chat/completions', { ...request, n: 3 });
    assert.equal(response.status, 400);
    assert.equal((await response.json()).error.param, 'n');
    const prompts = await server.post('/v1/completions', { model: 'demo', prompt: ['a', 'b', 'c'], max_tokens: 1 });
    assert.equal(prompts.status, 400);
    assert.match((await prompts.json()).error.message, /at most 2/);
  } finally {
    await server.stop();
  }
});

test('SIGTERM lets a stream finish, refuses new requests, and exits with 0', async () => {
  const server = await Server.start('--shutdown-timeout', '300');
  const stream = await server.client.chat.completions.create({
    model: 'demo', messages: user('Tell me a story.'), max_tokens: 400, ignore_eos: true, temperature: 0,
    stream: true, stream_options: { include_usage: true },
  });
  const reading = collect(stream);
  // Long answers keep the server draining until the refusal has been seen, however fast it is.
  const others = Array.from({ length: 8 }, () => server.post('/v1/chat/completions', {
    model: 'demo', messages: user('Tell me a story.'), max_tokens: 1900, ignore_eos: true, temperature: 0,
  }));
  assert.ok(await server.until('millrace_sequences_running', (value) => value >= 8));
  server.process.kill('SIGTERM');
  let refusal = null;
  for (let i = 0; i < 50 && refusal === null; ++i) {
    // A kept-alive connection that the server closes meanwhile is no answer: try again.
    const response = await fetch(`${server.url}/v1/models`).catch(() => null);
    if (response?.status === 503) refusal = response.status;
    await sleep(5);
  }
  const { usage, reason } = await reading;
  assert.equal(usage.completion_tokens, 400);
  assert.equal(reason, 'length');
  for (const other of await Promise.all(others)) {
    assert.equal((await other.json()).usage.completion_tokens, 1900);
  }
  assert.deepEqual(await server.exited, { code: 0, signal: null });
  assert.equal(refusal, 503);
});

test('a second SIGTERM ends at once', async () => {
  const server = await Server.start();
  const reading = server.post('/v1/chat/completions', {
    model: 'demo', messages: user('Tell me a story.'), max_tokens: 1900, ignore_eos: true, n: 32,
  }).catch(() => null);
  assert.ok(await server.until('millrace_sequences_running', (value) => value === 32));
  server.process.kill('SIGTERM');
  await sleep(50);
  server.process.kill('SIGTERM');
  const { code } = await server.exited;
  assert.equal(code, 1);
  await reading;
});

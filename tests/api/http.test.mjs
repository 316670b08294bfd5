// What does not depend on the client: framing, refusals, keys, origins.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { OpenAI, Server, sleep } from './server.mjs';

const body = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 };

describe('HTTP', () => {
  let server;
  before(async () => { server = await Server.start('--max-body', '1', '--verbose'); });
  after(() => server.stop());

  test('nothing is counted before the first request', async () => {
    for (const what of ['prompt_tokens_total', 'generated_tokens_total', 'steps_total',
      'choices_finished_total{reason="length"}', 'time_to_first_token_seconds_count']) {
      assert.equal(await server.metric(`millrace_${what}`), 0, what);
    }
  });

  test('chunked request bodies are read', async () => {
    const bytes = new TextEncoder().encode(JSON.stringify(body));
    const stream = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes.slice(0, 20));
        controller.enqueue(bytes.slice(20));
        controller.close();
      },
    });
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST', body: stream, duplex: 'half', headers: { 'Content-Type': 'application/json' },
    });
    assert.equal(response.status, 200);
    assert.equal((await response.json()).usage.completion_tokens <= 4, true);
  });

  test('bodies above the limit get 413 and bad ones 400, as JSON', async () => {
    const large = await server.post('/v1/chat/completions', 'x'.repeat(1_500_000));
    assert.equal(large.status, 413);
    assert.equal((await large.json()).error.type, 'invalid_request_error');
    for (const text of ['', '{', '{"model":"demo"', '[]', '"x"', '\u0000']) {
      const response = await server.post('/v1/chat/completions', text);
      assert.equal(response.status, 400, text);
      assert.ok((await response.json()).error.message.length > 0);
    }
    const deep = await server.post('/v1/chat/completions', '['.repeat(100_000) + ']'.repeat(100_000));
    assert.equal(deep.status, 400);
  });

  test('large bodies within the limit are fine', async () => {
    const response = await server.post('/tokenize', { prompt: 'story '.repeat(100_000) });
    assert.equal(response.status, 200);
    assert.ok((await response.json()).count > 1000);
  });

  test('compressed bodies get 415, unknown paths 404, other methods 405', async () => {
    const gzip = await server.post('/v1/completions', body, { headers: { 'Content-Encoding': 'gzip' } });
    assert.equal(gzip.status, 415);
    assert.equal((await fetch(`${server.url}/v1/embeddings`)).status, 404);
    const method = await fetch(`${server.url}/v1/chat/completions`);
    assert.equal(method.status, 405);
    assert.equal(method.headers.get('allow'), 'POST, OPTIONS');
    const head = await fetch(`${server.url}/v1/models`, { method: 'HEAD' });
    assert.equal(head.status, 200);
    assert.equal(await head.text(), '');
  });

  test('streams carry the headers that proxies need', async () => {
    const response = await server.post('/v1/chat/completions', { ...body, stream: true });
    assert.match(response.headers.get('content-type'), /^text\/event-stream/);
    assert.equal(response.headers.get('x-accel-buffering'), 'no');
    assert.equal(response.headers.get('cache-control'), 'no-cache');
    const text = await response.text();
    assert.equal(text.split('data: [DONE]').length, 2);
    assert.ok(text.endsWith('data: [DONE]\n\n'));
    assert.ok(text.split('\n').every((line) => line === '' || line.startsWith('data: ')));
  });

  test('one connection serves many requests', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const sockets = new Set();
    for (let i = 0; i < 5; ++i) {
      await new Promise((resolve, reject) => {
        const request = http.get(`${server.url}/v1/models`, { agent }, (response) => {
          sockets.add(response.socket);
          response.resume().on('end', resolve);
        });
        request.on('error', reject);
      });
    }
    agent.destroy();
    assert.equal(sockets.size, 1);
  });

  // Raw bytes, the sending side closed behind them; everything that comes back.
  const converse = (bytes) => new Promise((resolve, reject) => {
    let received = '';
    const socket = net.connect({ port: new URL(server.url).port, host: '127.0.0.1' }, () => socket.end(bytes));
    socket.on('data', (data) => { received += data; });
    socket.on('end', () => resolve(received));
    socket.on('error', reject);
  });
  const post = (fields, host = 'localhost', target = '/v1/chat/completions') => {
    const text = JSON.stringify({ ...body, ...fields });
    return `POST ${target} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
  };

  test('a client that closes its sending side gets its whole answer', async () => {
    for (const stream of [false, true]) {
      const received = await converse(post({ max_tokens: 60, ignore_eos: true, stream }));
      assert.match(received, /^HTTP\/1\.1 (100|200) /);
      assert.match(received, /"finish_reason":"length"/);
    }
  });

  test('a page that renamed the loopback address is refused, a whole URL is routed', async () => {
    assert.match(await converse(post({}, 'evil.example')), /^HTTP\/1\.1 403 [^]*host_not_allowed/);
    const whole = post({}, 'ignored.example', `http://localhost/v1/chat/completions`);
    assert.match(await converse(whole), /^HTTP\/1\.1 (100|200) [^]*chat\.completion/);
    assert.match(await converse('GET /v1/models HTTP/1.1\r\n\r\n'), /^HTTP\/1\.1 400 /);
  });

  test('numbers that are none are refused', async () => {
    for (const number of ['NaN', 'Infinity', '-Infinity', '1e999']) {
      const text = JSON.stringify(body).replace('"max_tokens":4', `"temperature":${number}`);
      assert.equal((await server.post('/v1/chat/completions', text)).status, 400, number);
    }
  });

  test('every answer has a request id, the own one if it is plain', async () => {
    const own = await fetch(`${server.url}/v1/models`, { headers: { 'X-Request-Id': 'my-1' } });
    assert.equal(own.headers.get('x-request-id'), 'my-1');
    const stream = await server.post('/v1/chat/completions', { ...body, stream: true });
    assert.match(stream.headers.get('x-request-id'), /^req-/);
    await stream.text();
  });

  test('pages from elsewhere are refused', async () => {
    const response = await fetch(`${server.url}/v1/models`, { headers: { Origin: 'https://evil.example' } });
    assert.equal(response.status, 403);
    assert.equal(response.headers.get('access-control-allow-origin'), null);
  });

  test('metrics count what was served', async () => {
    const series = 'millrace_http_requests_total{route="/v1/chat/completions",status="200"}';
    const before = await server.metric(series);
    const generated = await server.metric('millrace_generated_tokens_total');
    await (await server.post('/v1/chat/completions', { ...body, ignore_eos: true })).json();
    assert.equal(await server.metric(series), before + 1);
    assert.equal(await server.metric('millrace_generated_tokens_total'), generated + 4);
    assert.ok(await server.metric('millrace_time_to_first_token_seconds_count') > 0);
  });

  test('errors have one set of codes and name the field as the client does', async () => {
    const ask = async (path, fields) => (await (await server.post(path, fields)).json()).error;
    const chat = (fields) => ask('/v1/chat/completions', { ...body, ...fields });
    assert.equal((await chat({ n: '1' })).code, 'invalid_type');
    assert.equal((await chat({ n: 0 })).code, 'invalid_value');
    assert.equal((await chat({ bad_words: ['a'] })).code, 'unsupported_parameter');
    assert.equal(await chat({ bad_words: [], repeat_penalty: 1, guided_json: null }), undefined);
    const stop = await chat({ stop_token_ids: [99999999] });
    assert.equal(stop.param, 'stop_token_ids');
    assert.match(stop.message, /^stop_token_ids\[0\] /);
    const long = await ask('/v1/completions', { prompt: 'a'.repeat(900_000) });
    assert.equal(long.code, 'context_length_exceeded');
    assert.match(long.message, /^prompt: at least \d{5,} tokens/);
    assert.equal((await ask('/v1/completions', {})).code, 'missing_required_parameter');
  });

  test('fields that nobody knows are named in a header and once in the log', async () => {
    const ask = (fields) => server.post('/v1/chat/completions', { ...body, ...fields });
    const typo = { typ_p: 0.5, 'a\r\nX: y': 1, stream: true, stream_options: { includ_usage: true } };
    for (let i = 0; i < 2; ++i) {
      const response = await ask(typo);
      assert.equal(response.headers.get('x-millrace-ignored-fields'), 'stream_options.includ_usage, typ_p');
      assert.equal(response.headers.get('x'), null);
      await response.text();
    }
    assert.equal((await ask({})).headers.get('x-millrace-ignored-fields'), null);
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`field_${i}`, 1]));
    assert.equal((await ask(many)).headers.get('x-millrace-ignored-fields').split(', ').length, 8);
    assert.equal(server.log.split('"typ_p"').length, 2);
  });

  test('a limit of -1 token is what the window leaves', async () => {
    const ask = async (fields) => (await (await server.post('/v1/completions', {
      prompt: 'Once', stop: [], temperature: 0, ignore_eos: true, ...fields,
    })).json());
    assert.equal((await ask({})).usage.completion_tokens, 16);
    for (const fields of [{ max_tokens: -1 }, { n_predict: -1 }]) {
      const { usage, choices: [{ finish_reason }] } = await ask(fields);
      assert.equal(finish_reason, 'length');
      assert.equal(usage.total_tokens, 2048);
    }
    assert.match((await ask({ max_tokens: -2 })).error.message, /or -1 for what the window leaves, got -2/);
  });

  test('every request is logged with --verbose, probes of health as well', async () => {
    await fetch(`${server.url}/health/live`, { headers: { 'X-Request-Id': 'probe-1' } });
    for (let i = 0; i < 100 && !server.log.includes('probe-1'); ++i) await sleep(20);
    assert.match(server.log,
      /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d debug \[http\] probe-1 GET \/health\/live 200 after [\d.]+ ms$/m);
  });

  test('the log says nothing of prompts', () => {
    assert.doesNotMatch(server.log, /\bHi\b/);  // ids are made of letters, too
    assert.ok(server.log.includes('listening on http://127.0.0.1:'));
  });
});

test('with a key file only health is open', async () => {
  const file = path.join(tmpdir(), `millrace-keys-${process.pid}`);
  writeFileSync(file, '# keys\nsk-right\n');
  const server = await Server.start('--api-key-file', file, '--allow-origin', 'https://app.example');
  try {
    assert.equal((await fetch(`${server.url}/health/live`)).status, 200);
    for (const route of ['/metrics', '/v1/models']) {
      assert.equal((await fetch(server.url + route)).status, 401);
    }
    const wrong = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'sk-wrong', maxRetries: 0 });
    await assert.rejects(wrong.models.list(), OpenAI.AuthenticationError);
    const right = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'sk-right', maxRetries: 0 });
    assert.equal((await right.models.list()).data.length, 1);
    const preflight = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        Origin: 'https://app.example', 'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'authorization,content-type,x-stainless-lang',
      },
    });
    assert.equal(preflight.status, 204);
    assert.match(preflight.headers.get('access-control-allow-headers'), /authorization/);
    assert.ok(!server.log.includes('sk-right'));
  } finally {
    await server.stop();
  }
});

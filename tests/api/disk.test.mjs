// The prefix cache on disk as clients and operators see it.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Server } from './server.mjs';

const request = {
  model: 'demo', max_tokens: 12, temperature: 0,
  messages: [{ role: 'user', content: `Tell me a story. ${'A fox and a boat. '.repeat(60)}` }],
};

describe('prompts on disk', () => {
  let folder;
  before(() => { folder = mkdtempSync(path.join(tmpdir(), 'millrace-api-disk-')); });
  after(() => rmSync(folder, { recursive: true, force: true }));

  // One answer of a server of its own; how the server ends is the test's matter.
  const ask = async (...options) => {
    const server = await Server.start(...options);
    const { choices, usage } = await server.client.chat.completions.create(request);
    return { server, text: choices[0].message.content, cached: usage.prompt_tokens_details.cached_tokens };
  };

  test('a killed server leaves what the next one loads, with the same answer', async () => {
    const cold = await ask('--kv-disk', folder);
    assert.equal(cold.cached, 0);
    assert.ok(await cold.server.until('millrace_kv_disk_writes_total{outcome="written"}', (n) => n >= 3));
    cold.server.process.kill('SIGKILL');
    await cold.server.exited;
    const warm = await ask('--kv-disk', folder);
    assert.equal(warm.text, cold.text);
    assert.ok(warm.cached >= 128 && warm.cached % 64 === 0, `${warm.cached}`);
    assert.equal(await warm.server.metric('millrace_cached_prompt_tokens_total{tier="disk"}'), warm.cached);
    assert.equal(await warm.server.metric('millrace_prefix_cache_hits_total{tier="disk"}'), 1);
    assert.equal(await warm.server.metric('millrace_kv_disk_reads_total{outcome="loaded"}'), warm.cached / 64);
    assert.ok(await warm.server.metric('millrace_kv_disk_read_bytes_total') > 0);
    assert.equal(await warm.server.metric('millrace_kv_disk_load_seconds_count'), 1);
    assert.ok(await warm.server.metric('millrace_kv_disk_records') >= warm.cached / 64);
    assert.ok(await warm.server.metric('millrace_kv_disk_bytes') > 0);
    assert.equal((await warm.server.stop()).code, 0);
  });

  test('a file cut while the server runs costs nobody an answer', async () => {
    const server = await Server.start('--kv-disk', folder);
    for (const name of readdirSync(folder).filter((file) => file.endsWith('.kv'))) {
      truncateSync(path.join(folder, name), 1000);
    }
    const answer = await server.client.chat.completions.create(request);
    assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 0);
    assert.equal(await server.metric('millrace_kv_disk_reads_total{outcome="corrupt"}'), 1);
    assert.equal((await server.stop()).code, 0);
  });
});

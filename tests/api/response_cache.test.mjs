// The response cache through the official client.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Server } from './server.mjs';

const request = {
  model: 'demo', messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 200, temperature: 0,
};
const outcomeOf = (response) => response.headers.get('x-millrace-response-cache');

describe('a server with a response cache', () => {
  let server;
  before(async () => { server = await Server.start('--response-cache', '16'); });
  after(async () => assert.equal((await server.stop()).code, 0));

  const ask = async (body, options) => {
    const { data, response } = await server.client.chat.completions.create(body, options).withResponse();
    return { answer: data, outcome: outcomeOf(response) };
  };

  test('answers from it, streamed or not, and says so', async () => {
    const first = await ask(request);
    const second = await ask(request);
    assert.equal(first.outcome, 'miss');
    assert.equal(second.outcome, 'hit');
    assert.deepEqual(second.answer.choices, first.answer.choices);
    assert.equal(second.answer.usage.response_cache, 'hit');
    assert.equal(second.answer.usage.prompt_tokens_details.cached_tokens, second.answer.usage.prompt_tokens);
    const streamed = await ask({ ...request, stream: true });
    assert.equal(streamed.outcome, 'hit');
    let text = '';
    for await (const chunk of streamed.answer) text += chunk.choices[0]?.delta?.content ?? '';
    assert.equal(text, first.answer.choices[0].message.content);
  });

  test('computes for eight at once as for one', async () => {
    const before = await server.metric('millrace_generated_tokens_total');
    const body = { ...request, seed: 12, temperature: 1 };
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(body)));
    const texts = new Set(answers.map(({ answer }) => answer.choices[0].message.content));
    assert.equal(texts.size, 1);
    assert.equal(answers.filter(({ outcome }) => outcome === 'miss').length, 1);
    const { usage } = answers[0].answer;
    const computed = await server.metric('millrace_generated_tokens_total') - before;
    assert.ok(computed <= usage.completion_tokens + 1, `${computed} tokens were computed`);
  });

  test('is told to keep out by headers and by what is asked', async () => {
    const headers = (value) => ({ headers: { 'Cache-Control': value } });
    assert.equal((await ask(request, headers('no-store'))).outcome, 'bypass');
    assert.equal((await ask(request, headers('no-cache'))).outcome, 'miss');
    assert.equal((await ask({ ...request, temperature: 1 })).outcome, 'bypass');
    assert.equal((await ask({ ...request, max_tokens: 199 })).outcome, 'miss');
  });
});

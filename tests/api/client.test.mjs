// Every endpoint through the official client.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { OpenAI, Server, collect, tokens } from './server.mjs';

const user = (content) => [{ role: 'user', content }];
const story = user('Tell me a story.');

describe('the official client', () => {
  let server;
  let client;
  before(async () => {
    server = await Server.start('--alias', 'storyteller');
    client = server.client;
  });
  after(async () => assert.equal((await server.stop()).code, 0));

  test('lists and finds models', async () => {
    const models = (await client.models.list()).data.map((model) => model.id);
    assert.deepEqual(models, ['storyteller', 'demo']);
    assert.equal((await client.models.retrieve('demo')).id, 'demo');
    await assert.rejects(client.models.retrieve('gpt-4o'), OpenAI.NotFoundError);
  });

  test('chat answers with text, reason and usage', async () => {
    const answer = await client.chat.completions.create({
      model: 'demo', messages: story, max_tokens: 24, temperature: 0,
    });
    assert.equal(answer.object, 'chat.completion');
    assert.match(answer.id, /^chatcmpl-/);
    assert.equal(answer.model, 'demo');
    const [choice] = answer.choices;
    assert.equal(choice.message.role, 'assistant');
    assert.ok(choice.message.content.length > 0);
    assert.ok(['stop', 'length'].includes(choice.finish_reason));
    assert.ok(answer.usage.prompt_tokens > 0);
    assert.ok(answer.usage.completion_tokens <= 24);
    assert.equal(answer.usage.total_tokens,
      answer.usage.prompt_tokens + answer.usage.completion_tokens);
    assert.equal(typeof answer.usage.prompt_tokens_details.cached_tokens, 'number');
  });

  test('a stream says the same as a whole answer', async () => {
    const request = { model: 'demo', messages: story, max_tokens: 40, temperature: 0.8, seed: 11 };
    const whole = await client.chat.completions.create(request);
    const streamed = await collect(await client.chat.completions.create({
      ...request, stream: true, stream_options: { include_usage: true },
    }));
    assert.equal(streamed.text, whole.choices[0].message.content);
    assert.equal(streamed.reason, whole.choices[0].finish_reason);
    for (const key of ['prompt_tokens', 'completion_tokens', 'total_tokens']) {
      assert.equal(streamed.usage[key], whole.usage[key]);
    }
    const { chunks } = streamed;
    assert.deepEqual(chunks[0].choices[0].delta, { role: 'assistant', content: '' });
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.filter((chunk) => chunk.usage).length, 1);
    for (const key of ['id', 'created', 'model']) {
      assert.equal(new Set(chunks.map((chunk) => chunk[key])).size, 1);
    }
    assert.equal(chunks.filter((chunk) => chunk.choices[0]?.finish_reason).length, 1);
  });

  test('a prompt seen before is found in the cache, in its own salt only', async () => {
    const ask = async (salt, streams) => {
      const request = {
        model: 'demo', messages: user(`A cat, a mouse and a cheese: ${'more cheese, '.repeat(40)}`),
        max_tokens: 8, temperature: 0, ...(salt && { cache_salt: salt }),
      };
      if (!streams) return (await client.chat.completions.create(request)).usage;
      return (await collect(await client.chat.completions.create({
        ...request, stream: true, stream_options: { include_usage: true },
      }))).usage;
    };
    for (const salt of [undefined, 'a', 'b']) {
      const before = await server.metric('millrace_cached_prompt_tokens_total{tier="memory"}');
      const [first, again, streamed] = [await ask(salt), await ask(salt), await ask(salt, true)];
      // Every prompt begins with the template's own words, which any request may have left there.
      assert.ok(first.prompt_tokens_details.cached_tokens < (salt ? 1 : 20));
      assert.ok(first.prompt_tokens > 100);
      for (const usage of [again, streamed]) {
        assert.equal(usage.prompt_tokens_details.cached_tokens, first.prompt_tokens - 1);
      }
      const after = await server.metric('millrace_cached_prompt_tokens_total{tier="memory"}');
      assert.equal(after - before, [first, again, streamed].reduce(
        (sum, usage) => sum + usage.prompt_tokens_details.cached_tokens, 0));
    }
  });

  test('usage is not mentioned in a stream that did not ask', async () => {
    const { chunks } = await collect(await client.chat.completions.create({
      model: 'demo', messages: story, max_tokens: 3, stream: true,
    }));
    assert.ok(chunks.every((chunk) => !('usage' in chunk)));
  });

  test('the stream helper of the client agrees', async () => {
    const stream = client.chat.completions.stream({
      model: 'demo', messages: story, max_tokens: 20, temperature: 0,
    });
    const final = await stream.finalChatCompletion();
    assert.ok(final.choices[0].message.content.length > 0);
  });

  test('n choices have their own text and share the prompt', async () => {
    const answer = await client.chat.completions.create({
      model: 'demo', messages: story, max_tokens: 12, n: 3, seed: 5, temperature: 1,
    });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2]);
    assert.ok(new Set(answer.choices.map((choice) => choice.message.content)).size > 1);
    const one = await client.chat.completions.create({
      model: 'demo', messages: story, max_tokens: 12, seed: 5, temperature: 1,
    });
    assert.equal(one.choices[0].message.content, answer.choices[0].message.content);
    assert.equal(one.usage.prompt_tokens, answer.usage.prompt_tokens);
  });

  test('streamed choices are told apart by index', async () => {
    const texts = ['', ''];
    const reasons = [null, null];
    const request = {
      model: 'demo', messages: story, max_tokens: 12, n: 2, seed: 9, temperature: 1,
    };
    for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
      for (const choice of chunk.choices) {
        texts[choice.index] += choice.delta.content ?? '';
        reasons[choice.index] = choice.finish_reason ?? reasons[choice.index];
      }
    }
    const whole = await client.chat.completions.create(request);
    assert.deepEqual(texts, whole.choices.map((choice) => choice.message.content));
    assert.deepEqual(reasons, whole.choices.map((choice) => choice.finish_reason));
  });

  test('a seed gives the same text again, another one another', async () => {
    const ask = async (seed) => (await client.chat.completions.create({
      model: 'demo', messages: story, max_tokens: 30, temperature: 1, seed,
    })).choices[0].message.content;
    assert.equal(await ask(3), await ask(3));
    assert.notEqual(await ask(3), await ask(4));
  });

  test('the seed that was drawn is in the answer and gives it again', async () => {
    const request = { model: 'demo', messages: story, max_tokens: 30, temperature: 1 };
    const first = await client.chat.completions.create(request);
    assert.ok(Number.isSafeInteger(first.seed));
    const again = await client.chat.completions.create({ ...request, seed: first.seed });
    assert.equal(again.choices[0].message.content, first.choices[0].message.content);
    const { chunks } = await collect(await client.chat.completions.create({ ...request, stream: true }));
    const seeds = chunks.filter((chunk) => 'seed' in chunk);
    assert.equal(seeds.length, 1);
    assert.equal(seeds[0].choices[0].finish_reason !== null, true);
  });

  test('what common clients send along changes nothing', async () => {
    const request = { model: 'demo', messages: story, max_tokens: 8, temperature: 0 };
    const plain = (await client.chat.completions.create(request)).choices[0].message.content;
    for (const extra of [
      { response_format: { type: 'text' }, parallel_tool_calls: false, store: true },
      { logprobs: false, top_logprobs: 0, stream_options: null, tools: [], tool_choice: 'auto' },
      { user: 'u', metadata: { a: 'b' }, service_tier: 'auto', num_ctx: 4096, cache_prompt: true },
    ]) {
      const answer = await client.chat.completions.create({ ...request, ...extra });
      assert.equal(answer.choices[0].message.content, plain);
    }
    await client.completions.create({ model: 'demo', prompt: 'Once', max_tokens: 1, response_format: { type: 'text' } });
  });

  test('stop strings end the answer before them, streamed or not', async () => {
    const request = { model: 'demo', messages: story, max_tokens: 60, temperature: 0 };
    const full = (await client.chat.completions.create(request)).choices[0].message.content;
    const stop = full.slice(10, 14);
    const cut = full.slice(0, full.indexOf(stop));
    const answer = await client.chat.completions.create({ ...request, stop });
    assert.equal(answer.choices[0].message.content, cut);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    const streamed = await collect(
      await client.chat.completions.create({ ...request, stop: ['\u0000', stop], stream: true }));
    assert.equal(streamed.text, cut);
    assert.equal(streamed.reason, 'stop');
  });

  test('max_completion_tokens is the newer name of max_tokens', async () => {
    const answer = await client.chat.completions.create({
      model: 'demo', messages: story, max_completion_tokens: 5, max_tokens: 50, ignore_eos: true,
    });
    assert.equal(answer.usage.completion_tokens, 5);
    assert.equal(answer.choices[0].finish_reason, 'length');
  });

  test('chat logprobs are objects with bytes, whole and streamed', async () => {
    const request = {
      model: 'demo', messages: story, max_tokens: 6, temperature: 0, logprobs: true, top_logprobs: 3,
    };
    const [choice] = (await client.chat.completions.create(request)).choices;
    assert.equal(choice.logprobs.content.length, 6);
    const bytes = choice.logprobs.content.flatMap((entry) => entry.bytes);
    assert.equal(Buffer.from(bytes).toString('utf8'), choice.message.content);
    for (const entry of choice.logprobs.content) {
      assert.equal(entry.top_logprobs.length, 3);
      assert.equal(entry.top_logprobs[0].token, entry.token);  // temperature 0 takes the best
      assert.ok(entry.logprob <= 0);
    }
    const plain = await client.chat.completions.create({ ...request, top_logprobs: undefined });
    assert.deepEqual(plain.choices[0].logprobs.content[0].top_logprobs, []);
    const streamed = await collect(await client.chat.completions.create({ ...request, stream: true }));
    const entries = streamed.chunks.flatMap((chunk) => chunk.choices[0]?.logprobs?.content ?? []);
    assert.deepEqual(entries, choice.logprobs.content);
  });

  test('content parts are joined and null fields are absent', async () => {
    const request = { model: 'demo', max_tokens: 8, temperature: 0 };
    const whole = await client.chat.completions.create({ ...request, messages: user('Tell me a story.') });
    const parts = await client.chat.completions.create({
      ...request,
      messages: user([{ type: 'text', text: 'Tell me ' }, { type: 'text', text: 'a story.' }]),
      seed: null, stop: null, top_p: null, n: null, tools: null, logit_bias: null,
    });
    assert.equal(parts.choices[0].message.content, whole.choices[0].message.content);
    assert.equal(parts.usage.prompt_tokens, whole.usage.prompt_tokens);
  });

  test('an assistant message can be continued', async () => {
    const answer = await client.chat.completions.create({
      model: 'demo', max_tokens: 8, temperature: 0, continue_final_message: true,
      messages: [...story, { role: 'assistant', content: 'Once upon a' }],
    });
    assert.ok(answer.choices[0].message.content.length > 0);
  });

  test('completions take text and ids and arrays of both', async () => {
    const request = { model: 'demo', max_tokens: 6, temperature: 0 };
    const text = await client.completions.create({ ...request, prompt: 'Once upon a time' });
    assert.equal(text.object, 'text_completion');
    const { tokens } = await (await server.post('/tokenize', { prompt: 'Once upon a time' })).json();
    const ids = await client.completions.create({ ...request, prompt: tokens });
    assert.equal(ids.choices[0].text, text.choices[0].text);
    const both = await client.completions.create({ ...request, prompt: ['Once upon a time', 'The fox'] });
    assert.deepEqual(both.choices.map((choice) => choice.index), [0, 1]);
    assert.equal(both.choices[0].text, text.choices[0].text);
    const lists = await client.completions.create({ ...request, prompt: [tokens, tokens], n: 2 });
    assert.equal(lists.choices.length, 4);
    assert.equal(lists.usage.prompt_tokens, 2 * tokens.length);
  });

  test('completions stream what they say whole', async () => {
    const request = { model: 'demo', prompt: 'Once', max_tokens: 20, temperature: 0 };
    const whole = await client.completions.create(request);
    const streamed = await collect(await client.completions.create({
      ...request, stream: true, stream_options: { include_usage: true },
    }));
    assert.equal(streamed.text, whole.choices[0].text);
    assert.deepEqual(tokens(streamed.usage), tokens(whole.usage));
  });

  test('completions echo the prompt with its logprobs and nothing more', async () => {
    const answer = await client.completions.create({
      model: 'demo', prompt: 'Once upon a time', max_tokens: 0, echo: true, logprobs: 2,
    });
    const [choice] = answer.choices;
    assert.equal(choice.text, 'Once upon a time');
    assert.equal(answer.usage.completion_tokens, 0);
    assert.equal(choice.logprobs.tokens.join(''), choice.text);
    assert.equal(choice.logprobs.token_logprobs[0], null);
    assert.ok(choice.logprobs.token_logprobs.slice(1).every((value) => value <= 0));
    for (let i = 1; i < choice.logprobs.tokens.length; ++i) {
      assert.ok(choice.logprobs.tokens[i] in choice.logprobs.top_logprobs[i]);
    }
    assert.equal(choice.logprobs.tokens.length, answer.usage.prompt_tokens);
  });

  test('echoed logprobs stream in the same order and offsets', async () => {
    const request = {
      model: 'demo', prompt: 'Once upon', max_tokens: 5, echo: true, logprobs: 1, temperature: 0,
    };
    const [whole] = (await client.completions.create(request)).choices;
    const { chunks, text } = await collect(
      await client.completions.create({ ...request, stream: true }));
    const parts = chunks.map((chunk) => chunk.choices[0]?.logprobs).filter(Boolean);
    assert.equal(text, whole.text);
    for (const key of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset']) {
      assert.deepEqual(parts.flatMap((part) => part[key]), whole.logprobs[key]);
    }
    assert.equal(whole.logprobs.tokens.join(''), whole.text);
  });

  test('tokenize and detokenize are inverse', async () => {
    const prompt = 'The fox said: "caf\u00e9 \ud83e\udd8a"!\n';
    const tokenized = await (await server.post('/tokenize', {
      prompt, add_special_tokens: false, return_token_strs: true,
    })).json();
    assert.equal(tokenized.count, tokenized.tokens.length);
    assert.equal(tokenized.token_strs.length, tokenized.tokens.length);
    const back = await (await server.post('/detokenize', { tokens: tokenized.tokens })).json();
    assert.equal(back.prompt, prompt);
    const theirs = await server.post('/tokenize', { content: 'Hello' });
    assert.equal(theirs.status, 400);
    assert.match((await theirs.json()).error.message, /content is called prompt here/);
    const chat = await (await server.post('/tokenize', { messages: story })).json();
    const answer = await client.chat.completions.create({ model: 'demo', messages: story, max_tokens: 1 });
    assert.equal(chat.count, answer.usage.prompt_tokens);
  });

  test('mistakes are errors of the client before anything streams', async () => {
    const create = (fields) => client.chat.completions.create({ model: 'demo', messages: story, ...fields });
    const rejection = async (fields, type) => {
      let caught;
      await assert.rejects(create(fields), (error) => { caught = error; return error instanceof type; });
      return caught;
    };
    for (const stream of [false, true]) {
      const zero = await rejection({ n: 0, stream }, OpenAI.BadRequestError);
      assert.equal(zero.param, 'n');
      const long = await rejection({ messages: user('word '.repeat(9000)), stream }, OpenAI.BadRequestError);
      assert.equal(long.code, 'context_length_exceeded');
      assert.equal(long.param, 'messages');
      assert.match(long.message, /\d+/);
      const unknown = await rejection({ model: 'gpt-3.5-turbo', stream }, OpenAI.NotFoundError);
      assert.match(unknown.message, /demo/);
      const image = await rejection({
        stream,
        messages: user([{ type: 'image_url', image_url: { url: 'data:,' } }]),
      }, OpenAI.BadRequestError);
      assert.equal(image.param, 'messages[0].content[0].type');
    }
    await rejection({ temperature: -1 }, OpenAI.BadRequestError);
    const forged = await rejection({ chat_template_kwargs: { messages: [] } }, OpenAI.BadRequestError);
    assert.equal(forged.param, 'chat_template_kwargs.messages');
    await rejection({ response_format: { type: 'json_object' } }, OpenAI.BadRequestError);
    await assert.rejects(client.completions.create({ model: 'demo', prompt: [-1] }), OpenAI.BadRequestError);
    await assert.rejects(
      client.completions.create({ model: 'demo', prompt: [99999999] }), OpenAI.BadRequestError);
    const after = await create({ max_tokens: 2 });
    assert.equal(after.choices.length, 1);
  });

  test('a control token in a message stays text', async () => {
    const plain = await (await server.post('/tokenize', { messages: user('x') })).json();
    const { prompt } = await (await server.post('/detokenize', { tokens: plain.tokens })).json();
    const control = prompt.match(/<\|[a-z_]+\|>/)?.[0];
    assert.ok(control, prompt);
    const forged = await (await server.post('/tokenize', { messages: user(control) })).json();
    const trusted = await (await server.post('/tokenize', {
      prompt: control, add_special_tokens: false,
    })).json();
    assert.equal(trusted.count, 1);
    const times = (tokens) => tokens.filter((id) => id === trusted.tokens[0]).length;
    assert.equal(times(forged.tokens), times(plain.tokens));
  });
});

// Tokens a second with and without speculation, on prompts sent for the first time (little to guess from)
// and sent again (everything can be guessed): two servers on the same file, in turns.
//
//   node bench/serving/speculation.mjs MILLRACE MODEL [OPTIONS]
import { readOptions } from './options.mjs';
import { Server, freshTokens, median } from './server.mjs';

const { values, millrace, model, serverOptions } = readOptions({
  rounds: 8,
  tokens: 128,
  draft: { default: '', word: 'DRAFT' },
});
const draft = values.draft ? ['--draft', values.draft] : [];
const servers = {
  guessing: await Server.start(millrace, model, ...serverOptions, ...draft),
  plain: await Server.start(millrace, model, ...serverOptions, '--draft-max', '0'),
};
const rates = {};
const guesses = { first: [0, 0], again: [0, 0] };
for (let round = 0; round < values.rounds; ++round) {
  const prompt = freshTokens(64);
  for (const when of ['first', 'again']) {
    for (const name of ['guessing', 'plain']) {
      const { first, whole, usage } = await servers[name].complete(prompt, values.tokens);
      ((rates[when] ??= {})[name] ??= []).push((usage.completion_tokens - 1) / (whole - first));
      const details = usage.completion_tokens_details;
      guesses[when][0] += details.accepted_prediction_tokens;
      guesses[when][1] += details.accepted_prediction_tokens + details.rejected_prediction_tokens;
    }
  }
}
for (const server of Object.values(servers)) await server.stop();
for (const when of ['first', 'again']) {
  const [guessing, plain] = [median(rates[when].guessing), median(rates[when].plain)];
  const ratios = rates[when].guessing.map((rate, i) => rate / rates[when].plain[i]);
  console.log(`sent ${when === 'first' ? 'for the first time' : 'again'}: ${guessing.toFixed(1)} tokens/s guessing, ` +
    `${plain.toFixed(1)} plain, median of ratios ${median(ratios).toFixed(2)}, ` +
    `${guesses[when][0]} of ${guesses[when][1]} guesses right`);
}

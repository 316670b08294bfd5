// What the benches take on their command line: MILLRACE MODEL, what all their servers are started with, and
// options of their own. Declared once: parsing, defaults, numbers and the usage line come from it.
import path from 'node:path';
import { parseArgs } from 'node:util';

// Of every bench; by default as the server decides.
const common = { threads: { default: 0, word: 'N' }, 'kv-type': { default: '', word: 'TYPE' } };

// own: defaults by name: a number, a text, or false for a switch. { default, word }: the usage shows the word
// instead of the default. rest: what the usage shows behind the options.
//
// Returns the values by name, numbers as numbers; `serverOptions`: of every server of the bench; `more`: what stands
// behind MODEL. Ends the process with status 1 and the usage when something is wrong.
export function readOptions(own, rest = '') {
  const options = Object.entries({ ...own, ...common }).map(([name, option]) =>
    ({ name, ...(typeof option === 'object' ? option : { default: option }) }));
  const end = (...reason) => {
    const words = options.map((option) => option.default === false ? `[--${option.name}]` :
      `[--${option.name} ${option.word ?? option.default}]`);
    const usage = ['usage: node', path.relative('', process.argv[1]), 'MILLRACE MODEL', ...words, rest];
    console.error([...reason, usage.join(' ').trim()].join('\n'));
    process.exit(1);
  };
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: Object.fromEntries(options.map((option) => [option.name, option.default === false ?
        { type: 'boolean', default: false } : { type: 'string', default: String(option.default) }])),
    });
  } catch (error) {
    end(error.message);
  }
  const { values, positionals: [millrace, model, ...more] } = parsed;
  if (!model) end();
  for (const option of options.filter((each) => typeof each.default === 'number')) {
    const number = Number(values[option.name] || NaN);
    if (!Number.isFinite(number)) end(`--${option.name}: expected a number, got '${values[option.name]}'`);
    values[option.name] = number;
  }
  const type = values['kv-type'] ? ['--kv-type', values['kv-type']] : [];
  return { values, millrace, model, serverOptions: ['-t', String(values.threads), ...type], more };
}

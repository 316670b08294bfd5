#include "cli/load_options.h"

#include "cli/option_set.h"
#include "sample/sampling_params.h"

namespace millrace {

void LoadCommandOptions::declare(OptionSet& options) {
  options.add("URL", url, "The server, as http://127.0.0.1:8080 (a /v1 at the end is taken off)");
  options.add("-r,--requests", n_requests, 1, 10'000'000, "How many requests");
  options.add("-c,--concurrency",
              concurrency,
              0,
              kMaxLoadConcurrency,
              "How many at once at most; 0: 8, or with --rate as many as there are");
  options.add("--rate",
              rate,
              0,
              1e6,
              "Requests that start in a second, at random (Poisson) times; 0: the next starts "
              "when one ends");
  options.add("--prompts",
              prompt_file,
              "A file with one prompt a line, - for standard input; default: eight built-in ones");
  options.add(
      "--model", model, "The model's name in the requests; default: the first of /v1/models");
  options.add("--api-key-file", api_key_file, "A file whose first line is the key; default: none");
  options.add("-n,--max-tokens",
              max_tokens,
              -1,
              1 << 20,
              "Tokens of an answer at most; -1: the server's own limit");
  options.add("--temperature",
              temperature,
              kTemperatureRange.low,
              kTemperatureRange.high,
              "How freely to draw; 0 takes the likeliest token each time");
  options.add("-s,--seed", seed, 0, INT32_MAX, "Request i is sent with seed + i");
  options.add("--timeout", timeout_seconds, 1, 86400, "Seconds without a byte before giving up");
  options.add("--ignore-eos",
              ignore_eos,
              "Ask for exactly --max-tokens (Millrace, vLLM); fewer count as short");
  options.add("--show-one", shows_one, "Print the first answer as it streams");
  options.add("--json", is_json, "Print one JSON object");
}

}  // namespace millrace

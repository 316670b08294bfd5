#include "cli/run_options.h"

#include "cli/option_set.h"

namespace millrace {

void RunOptions::declare(OptionSet& options) {
  model.declare(options);
  draft.declare(options);
  options.add("-p,--prompt", prompt, "The prompt; without it a chat (/help lists its commands)");
  options.add("--system", system, "A system message in front of the conversation");
  options.add("-n,--max-tokens", max_tokens, 1, INT32_MAX, "Tokens of an answer at most");
  options.add("--temperature", sampling.temperature, 0, 1e6, "0 takes the likeliest token");
  options.add("--top-k", sampling.top_k, 0, INT32_MAX, "Draw among the k likeliest; 0: all");
  options.add("--top-p", sampling.top_p, 1e-6, 1, "Draw among the likeliest with this sum");
  options.add("--min-p", sampling.min_p, 0, 1, "Least probability, as a share of the best");
  options.add("--typical-p", sampling.typical_p, 1e-6, 1, "Draw among the locally typical");
  options.add("--repetition-penalty", sampling.repetition_penalty, 0.01, 100, "1: none");
  options.add("--frequency-penalty", sampling.frequency_penalty, -2, 2, "0: none");
  options.add("--presence-penalty", sampling.presence_penalty, -2, 2, "0: none");
  options.add("-s,--seed", seed, INT64_MIN, INT64_MAX, "Same seed, same answer; default: random");
  options.add("--stop", stop, "End the answer before this text (repeatable)");
  options.add("--raw", is_raw, "The prompt as it is, without the model's chat template");
  options.add("--ignore-eos", ignore_eos, "Go on after the model's end token");
  options.add("-q,--quiet", is_quiet, "No line about the speed, no greeting");
  options.add("--json", is_json, "Print one JSON object with ids, text and timings");
}

Result<void> RunOptions::check() const {
  if (is_raw && !prompt) {
    return fail(ErrorCode::kInvalidArgument,
                "--raw goes with a prompt (-p TEXT): a chat needs the chat template that --raw "
                "leaves away");
  }
  if (is_raw && system) {
    return fail(ErrorCode::kInvalidArgument,
                "--system has no place with --raw: a system message is put into the prompt by the "
                "chat template; write all of the prompt with -p");
  }
  if (stop.size() > kMaxStopStrings) {
    return fail(ErrorCode::kInvalidArgument,
                "--stop may be given {} times, got {}",
                kMaxStopStrings,
                stop.size());
  }
  for (const std::string& text : stop) {
    if (text.empty() || text.size() > kMaxStopBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "--stop: expected a text of 1 to {} bytes, got {}",
                  kMaxStopBytes,
                  text.size());
    }
  }
  return {};
}

Request RunOptions::request() const {
  Request request;
  request.sampling = sampling;
  request.max_tokens = max_tokens;
  request.stop = stop;
  request.ignore_eos = ignore_eos;
  if (seed) {
    request.seed = static_cast<uint64_t>(*seed);
  }
  return request;
}

}  // namespace millrace

#include "cli/run_options.h"

#include <unistd.h>

#include "base/regular_file.h"
#include "cli/option_set.h"
#include "engine/engine.h"

namespace millrace {
namespace {

constexpr size_t kMaxPromptBytes = size_t{1} << 28;

void add_number(
    OptionSet& options, const char* name, float& value, SamplingRange range, const char* help) {
  options.add(name, value, range.low, range.high, help);
}

}  // namespace

void RunOptions::declare(OptionSet& options) {
  model.declare(options);
  draft.declare(options);
  options.add("-p,--prompt",
              prompt,
              "The prompt; - reads it from standard input, up to one line end at its end; without "
              "-p a chat (/help lists its commands)");
  options.add("--system", system, "A system message in front of the conversation; default: none");
  options.add("-n,--max-tokens",
              max_tokens,
              -1,
              INT32_MAX,
              "Tokens of an answer at most; -1 and default: what the window leaves");
  add_number(options,
             "--temperature",
             sampling.temperature,
             kTemperatureRange,
             "How freely to draw; 0 takes the likeliest token each time");
  options.add("--top-k",
              sampling.top_k,
              kLeastTopK,
              INT32_MAX,
              "Draw among the k likeliest tokens; 0 and -1: all");
  add_number(options,
             "--top-p",
             sampling.top_p,
             kShareRange,
             "Draw among the likeliest tokens whose probabilities reach this sum; 1: all, 0: the "
             "best alone");
  add_number(options,
             "--min-p",
             sampling.min_p,
             kShareRange,
             "Draw among tokens with this share of the best one's probability; 0: all");
  add_number(options,
             "--typical-p",
             sampling.typical_p,
             kShareRange,
             "Draw among the locally typical tokens that reach this sum; 1: all");
  add_number(options,
             "--repetition-penalty",
             sampling.repetition_penalty,
             kRepetitionRange,
             "Divides the logits of tokens of prompt and answer; 1: none");
  add_number(options,
             "--frequency-penalty",
             sampling.frequency_penalty,
             kPenaltyRange,
             "Taken from a logit each time that the answer has its token; 0: none");
  add_number(options,
             "--presence-penalty",
             sampling.presence_penalty,
             kPenaltyRange,
             "Taken once from the logit of a token that the answer has; 0: none");
  options.add("-s,--seed",
              seed,
              INT64_MIN,
              INT64_MAX,
              "Same seed, same answer; default, and -1: random, --json tells it");
  options.add("--stop", stop, "End the answer before this text (repeatable, up to 16)");
  options.add("--raw", is_raw, "The prompt as it is, without the model's chat template");
  options.add("--ignore-eos", ignore_eos, "Go on after the model's end token");
  options.add("-q,--quiet", is_quiet, "No lines about speed and end of an answer, no greeting");
  options.add("--json", is_json, "Print one JSON object with ids, text and timings");
}

Result<void> RunOptions::check() const {
  if (is_raw && !prompt) {
    return fail(ErrorCode::kInvalidArgument,
                "--raw goes with a prompt (-p TEXT): a chat needs the chat template that --raw "
                "leaves out");
  }
  if (is_raw && system) {
    return fail(ErrorCode::kInvalidArgument,
                "--system does not go with --raw: a system message is put into the prompt by the "
                "chat template; write all of the prompt with -p");
  }
  if (max_tokens == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "-n (--max-tokens): expected 1 or more, or -1 for what the window leaves, got 0");
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

Result<void> RunOptions::read_prompt() {
  if (prompt != "-") {
    return {};
  }
  auto text = read_to_end(STDIN_FILENO, "--prompt -: standard input", kMaxPromptBytes);
  if (!text) {
    return propagate(text);
  }
  if (text->empty()) {
    return fail(ErrorCode::kInvalidArgument, "--prompt -: standard input is empty");
  }
  if (text->ends_with('\n')) {
    text->resize(text->size() - (text->ends_with("\r\n") ? 2 : 1));
  }
  prompt = *std::move(text);
  return {};
}

Request RunOptions::request() const {
  Request request;
  request.sampling = sampling;
  if (max_tokens != -1) {
    request.max_tokens = max_tokens;
  }
  request.stop = stop;
  request.ignore_eos = ignore_eos;
  if (seed && *seed != kAnySeed) {
    request.seed = static_cast<uint64_t>(*seed);
  }
  return request;
}

}  // namespace millrace

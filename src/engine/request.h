#pragma once
// What a client asks of the engine, typed and in token ids. Plain data, checked once by
// Engine::submit. Any thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "sample/sampling_params.h"

namespace millrace {

// Prompts that a client sent together: none has waited too long once one of them has started, and
// none comes to nothing at the deadline once one of them has begun to answer. Only the engine
// thread looks inside.
struct RequestGroup {
  bool has_started = false;
  bool has_answered = false;  // a token, or a whole answer of none
};

struct Request {
  std::vector<TokenId> prompt = {};  // at least one token
  SamplingParams sampling = {};

  // Tokens to generate; absent: what the window leaves. 0 is allowed only with prompt_logprobs
  // or echo-like uses that want the prompt's figures and nothing else.
  std::optional<int64_t> max_tokens = {};
  int64_t min_tokens = 0;                 // end tokens are masked before, stop strings not matched
  std::vector<std::string> stop = {};     // at most kMaxStopStrings, none empty
  std::vector<TokenId> stop_tokens = {};  // end tokens besides the tokenizer's own
  bool ignore_eos = false;                // the tokenizer's end tokens are ordinary ones

  int n = 1;                          // choices; choice i draws with child_seed(seed, i)
  std::optional<uint64_t> seed = {};  // absent: random, reported in FinishEvent

  // Log probabilities are the model's own: before bias, penalties and temperature.
  std::optional<int> n_logprobs = {};  // of generated tokens: 0 chosen only, up to kMaxTopLogprobs
  std::optional<int> prompt_logprobs = {};  // of prompt tokens, likewise; comes as one PromptEvent

  // Requests share KV only with requests of the same salt, so nobody learns from the time of a
  // first token what others have asked.
  std::string cache_salt = {};  // at most kMaxSaltBytes

  // What the answer is expected to be, or to hold in large parts: guesses come from it too. It
  // changes how long the answer takes and never the answer.
  std::vector<TokenId> prediction = {};
  bool is_speculative = true;  // false: every token is computed by itself

  std::shared_ptr<RequestGroup> group = {};  // null: the request is alone

  int priority = 0;  // -1000 .. 1000, lower is served first
  int client = 0;    // who asks: priorities are among those of one client, where there is fairness

  // So long after it was received the request ends, wherever it is: with what it has, or with
  // kDeadlineExceeded if nothing of it has been answered.
  std::optional<int64_t> timeout_ms = {};  // 1 .. kMaxTimeoutMilliseconds
  std::optional<TimePoint> received = {};  // absent: when it is submitted
};

inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxStopStrings = 16;
inline constexpr int kMaxStopBytes = 1024;  // of one stop string
inline constexpr int kMaxSaltBytes = 128;
inline constexpr int kMaxStopTokens = 64;
inline constexpr int kMaxPriority = 1000;
inline constexpr int kMaxTimeoutMilliseconds = 86'400'000;

}  // namespace millrace

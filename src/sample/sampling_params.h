#pragma once
// What a client may ask of the sampler. Plain data, checked once by validate(). Any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace millrace {

// Added to the logit of one token before everything else that shapes the distribution.
struct LogitBias {
  TokenId token = 0;
  float bias = 0;  // -100 .. 100
};

// What a number may be, both ends included: one line for the API, the command line and validate().
struct SamplingRange {
  double low;
  double high;
};
inline constexpr SamplingRange kTemperatureRange{0, 1e6};
inline constexpr SamplingRange kShareRange{0, 1};  // top_p, min_p and typical_p
inline constexpr SamplingRange kRepetitionRange{0.01, 100};
inline constexpr SamplingRange kPenaltyRange{-2, 2};  // of frequency and presence
inline constexpr int32_t kLeastTopK = -1;

// The defaults change nothing: the model's own distribution.
struct SamplingParams {
  float temperature = 1;         // below kGreedyTemperature: the best token, lowest id first
  int32_t top_k = 0;             // keep exactly k, (logit descending, id ascending); 0 and -1: off
  float top_p = 1;               // the crossing token is kept, so 0 keeps the best alone
  float min_p = 0;               // keep p >= min_p * p_max
  float typical_p = 1;           // locally typical sampling, arXiv 2202.00666; 0 keeps one
  float repetition_penalty = 1;  // once per id of prompt and output
  float frequency_penalty = 0;   // per occurrence in the output
  float presence_penalty = 0;    // once per id of the output
  std::vector<LogitBias> logit_bias = {};  // at most kMaxLogitBias, ids unique
};

inline constexpr float kGreedyTemperature = 1e-5F;
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxTopLogprobs = 20;

struct SamplingFault {
  const char* field = "";
  std::string what;  // follows the name in a message: " must be 0 to 1, got 2"
};
// n_vocab bounds the ids of logit_bias.
std::optional<SamplingFault> find_fault(const SamplingParams& params, int32_t n_vocab);
// The same; kInvalidArgument names the field, its range and the value.
Result<void> validate(const SamplingParams& params, int32_t n_vocab);

}  // namespace millrace

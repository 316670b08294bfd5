#include "sample/sampling_params.h"

#include <algorithm>
#include <string_view>

namespace millrace {
namespace {

// NaN is in no range.
Result<void> check_range(std::string_view name, float value, SamplingRange range) {
  if (!(value >= static_cast<float>(range.low) && value <= static_cast<float>(range.high))) {
    return fail(ErrorCode::kInvalidArgument,
                "{} must be {} to {}, got {}",
                name,
                range.low,
                range.high,
                value);
  }
  return {};
}

Result<void> check_logit_bias(const std::vector<LogitBias>& biases, int32_t n_vocab) {
  if (biases.size() > kMaxLogitBias) {
    return fail(ErrorCode::kInvalidArgument,
                "logit_bias may hold at most {} tokens, got {}",
                kMaxLogitBias,
                biases.size());
  }
  std::vector<TokenId> seen;
  for (const LogitBias& entry : biases) {
    if (entry.token < 0 || entry.token >= n_vocab) {
      return fail(ErrorCode::kInvalidArgument,
                  "logit_bias names token {}, the vocabulary is 0 to {}",
                  entry.token,
                  n_vocab - 1);
    }
    if (auto in_range = check_range("logit_bias", entry.bias, {-100, 100}); !in_range) {
      return in_range;
    }
    seen.push_back(entry.token);
  }
  std::sort(seen.begin(), seen.end());
  if (auto twice = std::adjacent_find(seen.begin(), seen.end()); twice != seen.end()) {
    return fail(ErrorCode::kInvalidArgument, "logit_bias names token {} twice", *twice);
  }
  return {};
}

}  // namespace

Result<void> validate(const SamplingParams& params, int32_t n_vocab) {
  if (params.top_k < kLeastTopK) {
    return fail(
        ErrorCode::kInvalidArgument, "top_k must be {} or more, got {}", kLeastTopK, params.top_k);
  }
  for (const Result<void>& check : {
           check_range("temperature", params.temperature, kTemperatureRange),
           check_range("top_p", params.top_p, kShareRange),
           check_range("min_p", params.min_p, kShareRange),
           check_range("typical_p", params.typical_p, kShareRange),
           check_range("repetition_penalty", params.repetition_penalty, kRepetitionRange),
           check_range("frequency_penalty", params.frequency_penalty, kPenaltyRange),
           check_range("presence_penalty", params.presence_penalty, kPenaltyRange),
       }) {
    if (!check) {
      return check;
    }
  }
  return check_logit_bias(params.logit_bias, n_vocab);
}

}  // namespace millrace

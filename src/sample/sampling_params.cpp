#include "sample/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

// NaN is in no range.
std::optional<SamplingFault> check_range(const char* name, float value, SamplingRange range) {
  if (!(value >= static_cast<float>(range.low) && value <= static_cast<float>(range.high))) {
    return SamplingFault{name,
                         fmt::format(" must be {} to {}, got {}", range.low, range.high, value)};
  }
  return std::nullopt;
}

std::optional<SamplingFault> check_logit_bias(const std::vector<LogitBias>& biases,
                                              int32_t n_vocab) {
  constexpr const char* kName = "logit_bias";
  if (biases.size() > kMaxLogitBias) {
    return SamplingFault{
        kName, fmt::format(" may hold at most {} tokens, got {}", kMaxLogitBias, biases.size())};
  }
  std::vector<TokenId> seen;
  for (const LogitBias& entry : biases) {
    if (entry.token < 0 || entry.token >= n_vocab) {
      return SamplingFault{
          kName,
          fmt::format(" names token {}, the vocabulary is 0 to {}", entry.token, n_vocab - 1)};
    }
    if (auto fault = check_range(kName, entry.bias, {-100, 100})) {
      return fault;
    }
    seen.push_back(entry.token);
  }
  std::sort(seen.begin(), seen.end());
  if (auto twice = std::adjacent_find(seen.begin(), seen.end()); twice != seen.end()) {
    return SamplingFault{kName, fmt::format(" names token {} twice", *twice)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<SamplingFault> find_fault(const SamplingParams& params, int32_t n_vocab) {
  if (params.top_k < kLeastTopK) {
    return SamplingFault{"top_k",
                         fmt::format(" must be {} or more, got {}", kLeastTopK, params.top_k)};
  }
  for (auto& fault : {
           check_range("temperature", params.temperature, kTemperatureRange),
           check_range("top_p", params.top_p, kShareRange),
           check_range("min_p", params.min_p, kShareRange),
           check_range("typical_p", params.typical_p, kShareRange),
           check_range("repetition_penalty", params.repetition_penalty, kRepetitionRange),
           check_range("frequency_penalty", params.frequency_penalty, kPenaltyRange),
           check_range("presence_penalty", params.presence_penalty, kPenaltyRange),
       }) {
    if (fault) {
      return fault;
    }
  }
  return check_logit_bias(params.logit_bias, n_vocab);
}

Result<void> validate(const SamplingParams& params, int32_t n_vocab) {
  if (const auto fault = find_fault(params, n_vocab)) {
    return fail(ErrorCode::kInvalidArgument, "{}{}", fault->field, fault->what);
  }
  return {};
}

}  // namespace millrace

#include "engine/request_check.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace millrace {
namespace {

constexpr int64_t kMaxAnswerTokens = int64_t{1} << 40;  // so that sums cannot overflow

Result<void> check_number(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return fail(ErrorCode::kInvalidArgument, "{} must be {} to {}, got {}", name, low, high, value);
  }
  return {};
}

Result<void> check_tokens(std::string_view name,
                          const std::vector<TokenId>& tokens,
                          int32_t n_vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= n_vocab) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}[{}] is token {}, the vocabulary is 0 to {}",
                  name,
                  i,
                  tokens[i],
                  n_vocab - 1);
    }
  }
  return {};
}

Result<void> check_count(std::string_view what, size_t n, int64_t limit) {
  if (n > static_cast<size_t>(limit)) {
    return fail(ErrorCode::kInvalidArgument, "at most {} {}, got {}", limit, what, n);
  }
  return {};
}

Result<void> check_prompt(const Request& request, const RequestLimits& limits) {
  if (request.prompt.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the prompt has no tokens");
  }
  return check_tokens("prompt", request.prompt, limits.n_vocab);
}

// More choices than the queue holds would be refused as "full" however often they came.
Result<void> check_choices(const Request& request, const RequestLimits& limits) {
  if (auto checked = check_number("n", request.n, 1, kMaxChoices); !checked) {
    return checked;
  }
  if (request.n > limits.max_waiting) {
    return fail(ErrorCode::kInvalidArgument,
                "n must be at most {}, the answers that may wait (--max-waiting), got {}",
                limits.max_waiting,
                request.n);
  }
  return {};
}

Result<void> check_prediction(const Request& request, const RequestLimits& limits) {
  if (auto checked =
          check_count("tokens of a prediction", request.prediction.size(), limits.max_model_len);
      !checked) {
    return checked;
  }
  return check_tokens("prediction", request.prediction, limits.n_vocab);
}

Result<void> check_stop_tokens(const Request& request, const RequestLimits& limits) {
  if (auto checked = check_count("stop tokens", request.stop_tokens.size(), kMaxStopTokens);
      !checked) {
    return checked;
  }
  return check_tokens("stop_tokens", request.stop_tokens, limits.n_vocab);
}

Result<void> check_stop_strings(const Request& request) {
  if (auto checked = check_count("stop strings", request.stop.size(), kMaxStopStrings); !checked) {
    return checked;
  }
  for (const std::string& text : request.stop) {
    if (text.empty() || text.size() > kMaxStopBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "a stop string must have 1 to {} bytes, got {}",
                  kMaxStopBytes,
                  text.size());
    }
  }
  return {};
}

Result<void> check_salt(const Request& request) {
  if (request.cache_salt.size() > kMaxSaltBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "cache_salt has {} bytes, at most {} are allowed",
                request.cache_salt.size(),
                kMaxSaltBytes);
  }
  return {};
}

Result<void> check_window(const Request& request, const RequestLimits& limits) {
  const auto n_prompt = static_cast<int64_t>(request.prompt.size());
  // Out of range is another check's to say; here it only must not overflow.
  const int64_t n_answer = std::clamp<int64_t>(request.max_tokens.value_or(1), 0, kMaxAnswerTokens);
  if (n_prompt + n_answer > limits.max_model_len) {
    return fail(ErrorCode::kContextLength,
                "the window is {} tokens: {} of the prompt and {} of the answer{} are {}",
                limits.max_model_len,
                n_prompt,
                n_answer,
                request.max_tokens ? " (max_tokens)" : "",
                n_prompt + n_answer);
  }
  return {};
}

}  // namespace

std::optional<RequestFault> find_fault(const Request& request, const RequestLimits& limits) {
  const std::pair<const char*, Result<void>> checks[] = {
      {"prompt", check_prompt(request, limits)},
      {"n", check_choices(request, limits)},
      {"max_tokens",
       check_number("max_tokens", request.max_tokens.value_or(0), 0, kMaxAnswerTokens)},
      {"min_tokens",
       check_number(
           "min_tokens", request.min_tokens, 0, request.max_tokens.value_or(kMaxAnswerTokens))},
      {"n_logprobs", check_number("logprobs", request.n_logprobs.value_or(0), 0, kMaxTopLogprobs)},
      {"prompt_logprobs",
       check_number("prompt_logprobs", request.prompt_logprobs.value_or(0), 0, kMaxTopLogprobs)},
      {"priority", check_number("priority", request.priority, -kMaxPriority, kMaxPriority)},
      {"timeout_ms",
       check_number("timeout_ms", request.timeout_ms.value_or(1), 1, kMaxTimeoutMilliseconds)},
      {"cache_salt", check_salt(request)},
      {"prediction", check_prediction(request, limits)},
      {"stop_tokens", check_stop_tokens(request, limits)},
      {"stop", check_stop_strings(request)},
      {"sampling", validate(request.sampling, limits.n_vocab)},
      {"prompt", check_window(request, limits)},
  };
  for (const auto& [field, check] : checks) {
    if (!check) {
      return RequestFault{field, check.error()};
    }
  }
  return std::nullopt;
}

Result<void> check_request(const Request& request, const RequestLimits& limits) {
  if (auto fault = find_fault(request, limits)) {
    return tl::unexpected<Error>(std::move(fault->error));
  }
  return {};
}

int64_t answer_limit(const Request& request, const RequestLimits& limits) {
  const int64_t left = limits.max_model_len - static_cast<int64_t>(request.prompt.size());
  return std::min(request.max_tokens.value_or(left), left);
}

}  // namespace millrace

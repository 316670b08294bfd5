#include "engine/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace millrace {
namespace {

constexpr int64_t kMaxAnswerTokens = int64_t{1} << 40;  // so that sums cannot overflow

// What follows the field's name in the message; absent: nothing is wrong.
using Complaint = std::optional<std::string>;

Complaint check_number(int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return fmt::format(" must be {} to {}, got {}", low, high, value);
  }
  return std::nullopt;
}

Complaint check_tokens(const std::vector<TokenId>& tokens, int32_t n_vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= n_vocab) {
      return fmt::format("[{}] is token {}, the vocabulary is 0 to {}", i, tokens[i], n_vocab - 1);
    }
  }
  return std::nullopt;
}

Complaint check_count(std::string_view what, size_t n, int64_t limit) {
  if (n > static_cast<size_t>(limit)) {
    return fmt::format(": at most {} {}, got {}", limit, what, n);
  }
  return std::nullopt;
}

Complaint check_prompt(const Request& request, const RequestLimits& limits) {
  if (request.prompt.empty()) {
    return ": the prompt has no tokens";
  }
  return check_tokens(request.prompt, limits.n_vocab);
}

// More choices than the queue holds would be refused as "full" however often they came.
Complaint check_choices(const Request& request, const RequestLimits& limits) {
  if (auto wrong = check_number(request.n, 1, kMaxChoices)) {
    return wrong;
  }
  if (request.n > limits.max_waiting) {
    return fmt::format(" must be at most {}, the answers that may wait (--max-waiting), got {}",
                       limits.max_waiting,
                       request.n);
  }
  return std::nullopt;
}

Complaint check_prediction(const Request& request, const RequestLimits& limits) {
  if (auto wrong = check_count("tokens", request.prediction.size(), limits.max_model_len)) {
    return wrong;
  }
  return check_tokens(request.prediction, limits.n_vocab);
}

Complaint check_stop_tokens(const Request& request, const RequestLimits& limits) {
  if (auto wrong = check_count("stop tokens", request.stop_tokens.size(), kMaxStopTokens)) {
    return wrong;
  }
  return check_tokens(request.stop_tokens, limits.n_vocab);
}

Complaint check_stop_strings(const Request& request) {
  if (auto wrong = check_count("stop strings", request.stop.size(), kMaxStopStrings)) {
    return wrong;
  }
  for (const std::string& text : request.stop) {
    if (text.empty() || text.size() > kMaxStopBytes) {
      return fmt::format(
          ": a stop string must have 1 to {} bytes, got {}", kMaxStopBytes, text.size());
    }
  }
  return std::nullopt;
}

Complaint check_salt(const Request& request) {
  if (request.cache_salt.size() > kMaxSaltBytes) {
    return fmt::format(
        " has {} bytes, at most {} are allowed", request.cache_salt.size(), kMaxSaltBytes);
  }
  return std::nullopt;
}

Complaint check_window(const Request& request,
                       const RequestLimits& limits,
                       const RequestNames& names) {
  const auto n_prompt = static_cast<int64_t>(request.prompt.size());
  // Out of range is another check's to say; here it only must not overflow.
  const int64_t n_answer = std::clamp<int64_t>(request.max_tokens.value_or(1), 0, kMaxAnswerTokens);
  if (n_prompt + n_answer > limits.max_model_len) {
    return fmt::format(": the window is {} tokens: {} of the prompt and {} of the answer{} are {}",
                       limits.max_model_len,
                       n_prompt,
                       n_answer,
                       request.max_tokens ? fmt::format(" ({})", names.max_tokens) : "",
                       n_prompt + n_answer);
  }
  return std::nullopt;
}

}  // namespace

std::optional<RequestFault> find_fault(const Request& request,
                                       const RequestLimits& limits,
                                       const RequestNames& names) {
  const std::pair<std::string_view, Complaint> checks[] = {
      {names.prompt, check_prompt(request, limits)},
      {"n", check_choices(request, limits)},
      {names.max_tokens, check_number(request.max_tokens.value_or(0), 0, kMaxAnswerTokens)},
      {"min_tokens",
       check_number(request.min_tokens, 0, request.max_tokens.value_or(kMaxAnswerTokens))},
      {"logprobs", check_number(request.n_logprobs.value_or(0), 0, kMaxTopLogprobs)},
      {"prompt_logprobs", check_number(request.prompt_logprobs.value_or(0), 0, kMaxTopLogprobs)},
      {"priority", check_number(request.priority, -kMaxPriority, kMaxPriority)},
      {"timeout_ms", check_number(request.timeout_ms.value_or(1), 1, kMaxTimeoutMilliseconds)},
      {"cache_salt", check_salt(request)},
      {"prediction", check_prediction(request, limits)},
      {names.stop_tokens, check_stop_tokens(request, limits)},
      {"stop", check_stop_strings(request)},
  };
  const auto fault = [](std::string_view field, ErrorCode code, std::string_view what) {
    return RequestFault{std::string(field), {code, fmt::format("{}{}", field, what)}};
  };
  for (const auto& [field, wrong] : checks) {
    if (wrong) {
      return fault(field, ErrorCode::kInvalidArgument, *wrong);
    }
  }
  if (const auto wrong = find_fault(request.sampling, limits.n_vocab)) {
    return fault(wrong->field, ErrorCode::kInvalidArgument, wrong->what);
  }
  if (const auto wrong = check_window(request, limits, names)) {
    return fault(names.prompt, ErrorCode::kContextLength, *wrong);
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

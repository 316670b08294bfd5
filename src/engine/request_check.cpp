#include "engine/request_check.h"

#include <algorithm>
#include <string_view>

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

Result<void> check_stops(const Request& request) {
  if (request.stop.size() > kMaxStopStrings || request.stop_tokens.size() > kMaxStopTokens) {
    return fail(ErrorCode::kInvalidArgument,
                "at most {} stop strings and {} stop tokens, got {} and {}",
                kMaxStopStrings,
                kMaxStopTokens,
                request.stop.size(),
                request.stop_tokens.size());
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

Result<void> check_window(const Request& request, const RequestLimits& limits) {
  const auto n_prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t n_answer = request.max_tokens.value_or(1);
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

Result<void> check_request(const Request& request, const RequestLimits& limits) {
  if (request.prompt.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the prompt has no tokens");
  }
  for (const Result<void>& check : {
           check_number("n", request.n, 1, kMaxChoices),
           check_number("max_tokens", request.max_tokens.value_or(0), 0, kMaxAnswerTokens),
           check_number(
               "min_tokens", request.min_tokens, 0, request.max_tokens.value_or(kMaxAnswerTokens)),
           check_number("logprobs", request.n_logprobs.value_or(0), 0, kMaxTopLogprobs),
           check_number("prompt_logprobs", request.prompt_logprobs.value_or(0), 0, kMaxTopLogprobs),
           check_number("priority", request.priority, -kMaxPriority, kMaxPriority),
           check_tokens("prompt", request.prompt, limits.n_vocab),
           check_tokens("stop_tokens", request.stop_tokens, limits.n_vocab),
           check_stops(request),
           validate(request.sampling, limits.n_vocab),
           check_window(request, limits),
       }) {
    if (!check) {
      return check;
    }
  }
  return {};
}

int64_t answer_limit(const Request& request, const RequestLimits& limits) {
  const int64_t left = limits.max_model_len - static_cast<int64_t>(request.prompt.size());
  return std::min(request.max_tokens.value_or(left), left);
}

}  // namespace millrace

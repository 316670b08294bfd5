#include "engine/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <tuple>

namespace millrace {
namespace {

constexpr RequestLimits kLimits{.n_vocab = 100, .max_model_len = 50, .max_waiting = 8};

Request valid() {
  Request request;
  request.prompt = {1, 2, 99};
  return request;
}

TEST(RequestCheck, plain_request_passes_and_its_answer_may_fill_the_window) {
  EXPECT_TRUE(check_request(valid(), kLimits));
  EXPECT_EQ(answer_limit(valid(), kLimits), 47);
  Request request = valid();
  request.max_tokens = 5;
  EXPECT_EQ(answer_limit(request, kLimits), 5);
  request.max_tokens = 0;
  EXPECT_TRUE(check_request(request, kLimits));
  EXPECT_EQ(answer_limit(request, kLimits), 0);
}

TEST(RequestCheck, every_field_out_of_range_is_refused_by_name) {
  const auto huge = std::numeric_limits<int64_t>::max();
  const std::pair<const char*, std::function<void(Request&)>> cases[] = {
      {"prompt", [](Request& r) { r.prompt.clear(); }},
      {"prompt[1]", [](Request& r) { r.prompt[1] = -1; }},
      {"prompt[2]", [](Request& r) { r.prompt[2] = 100; }},
      {"n must", [](Request& r) { r.n = 0; }},
      {"n must", [](Request& r) { r.n = 1'000'000; }},
      {"max_tokens", [](Request& r) { r.max_tokens = -1; }},
      {"max_tokens", [&](Request& r) { r.max_tokens = huge; }},
      {"min_tokens", [](Request& r) { r.min_tokens = -1; }},
      {"min_tokens",
       [](Request& r) {
         r.max_tokens = 3;
         r.min_tokens = 4;
       }},
      {"logprobs", [](Request& r) { r.n_logprobs = 21; }},
      {"logprobs", [](Request& r) { r.n_logprobs = -1; }},
      {"prompt_logprobs", [](Request& r) { r.prompt_logprobs = 21; }},
      {"priority", [](Request& r) { r.priority = 1'001; }},
      {"timeout_ms", [](Request& r) { r.timeout_ms = 0; }},
      {"timeout_ms", [](Request& r) { r.timeout_ms = kMaxTimeoutMilliseconds + 1; }},
      {"stop_tokens[0]", [](Request& r) { r.stop_tokens = {100}; }},
      {"stop", [](Request& r) { r.stop = {""}; }},
      {"stop", [](Request& r) { r.stop = {std::string(1'025, 'x')}; }},
      {"stop", [](Request& r) { r.stop.assign(17, "x"); }},
      {"cache_salt", [](Request& r) { r.cache_salt.assign(129, 'x'); }},
      {"temperature", [](Request& r) { r.sampling.temperature = -1; }},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{100, 1}};
       }},
  };
  for (const auto& [word, spoil] : cases) {
    Request request = valid();
    spoil(request);
    const auto checked = check_request(request, kLimits);
    ASSERT_FALSE(checked) << word;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(checked.error().message, testing::HasSubstr(word));
  }
}

TEST(RequestCheck, more_choices_than_the_queue_holds_are_refused_for_good) {
  Request request = valid();
  request.n = 8;
  EXPECT_FALSE(find_fault(request, kLimits));
  request.n = 9;
  const auto fault = find_fault(request, kLimits);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->field, "n");
  EXPECT_EQ(fault->error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(fault->error.message,
              testing::AllOf(testing::HasSubstr("at most 8"), testing::HasSubstr("got 9")));
}

TEST(RequestCheck, faults_name_the_field_of_the_request) {
  Request request = valid();
  request.prompt[0] = 100;
  EXPECT_EQ(find_fault(request, kLimits)->field, "prompt");
  request = valid();
  request.prompt.assign(51, 1);
  EXPECT_EQ(find_fault(request, kLimits)->field, "prompt");
  request = valid();
  request.stop_tokens.assign(65, 1);
  EXPECT_EQ(find_fault(request, kLimits)->field, "stop_tokens");
  EXPECT_THAT(find_fault(request, kLimits)->error.message,
              testing::HasSubstr("at most 64 stop tokens, got 65"));
}

TEST(RequestCheck, messages_begin_with_the_name_that_whoever_asks_has_for_the_field) {
  const RequestNames names{
      .prompt = "messages", .max_tokens = "max_completion_tokens", .stop_tokens = "ends"};
  const std::tuple<const char*, const char*, std::function<void(Request&)>> cases[] = {
      {"messages", "messages[1] is token", [](Request& r) { r.prompt[1] = -1; }},
      {"messages", "messages: the prompt has no", [](Request& r) { r.prompt.clear(); }},
      {"messages", "messages: the window", [](Request& r) { r.prompt.assign(51, 1); }},
      {"max_completion_tokens",
       "max_completion_tokens must",
       [](Request& r) { r.max_tokens = -1; }},
      {"ends", "ends[0] is", [](Request& r) { r.stop_tokens = {100}; }},
      {"ends", "ends: at most", [](Request& r) { r.stop_tokens.assign(65, 1); }},
      {"logprobs", "logprobs must", [](Request& r) { r.n_logprobs = 21; }},
      {"top_p", "top_p must", [](Request& r) { r.sampling.top_p = 2; }},
      {"top_k", "top_k must", [](Request& r) { r.sampling.top_k = -5; }},
      {"timeout_ms", "timeout_ms must be 1 to", [](Request& r) { r.timeout_ms = 0; }},
  };
  for (const auto& [field, begin, spoil] : cases) {
    Request request = valid();
    spoil(request);
    const auto fault = find_fault(request, kLimits, names);
    ASSERT_TRUE(fault) << begin;
    EXPECT_EQ(fault->field, field);
    EXPECT_THAT(fault->error.message, testing::StartsWith(begin));
  }
  Request request = valid();
  request.max_tokens = 48;
  EXPECT_THAT(find_fault(request, kLimits, names)->error.message,
              testing::HasSubstr("(max_completion_tokens)"));
}

TEST(RequestCheck, what_exceeds_the_window_is_refused_with_counts) {
  Request request = valid();
  request.max_tokens = 47;
  EXPECT_TRUE(check_request(request, kLimits));
  request.max_tokens = 48;
  auto checked = check_request(request, kLimits);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kContextLength);
  EXPECT_THAT(
      checked.error().message,
      testing::AllOf(testing::HasSubstr("50"), testing::HasSubstr("48"), testing::HasSubstr("51")));
  request = valid();
  request.prompt.assign(50, 1);  // no room for one token of an answer
  EXPECT_EQ(check_request(request, kLimits).error().code, ErrorCode::kContextLength);
  request.max_tokens = 0;
  EXPECT_TRUE(check_request(request, kLimits));
}

}  // namespace
}  // namespace millrace

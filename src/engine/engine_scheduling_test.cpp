// What the engine does about deadlines and about clients that share it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/test_engine.h"

namespace millrace {
namespace {

using testing::HasSubstr;

Request greedy(int n_prompt, int64_t max_tokens, int salt = 0) {
  Request request;
  request.prompt = some_prompt(n_prompt, salt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  return request;
}

// The engine stands still between two steps, from the first event of a request on.
class Hold {
 public:
  explicit Hold(TestEngine& rig, Request request = greedy(20, 50)) {
    stream_ = *rig.engine->submit(std::move(request), [this] { is_released_.wait(false); });
    StreamEvent event;
    EXPECT_TRUE(stream_->wait_next(event));  // it runs
  }
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  void release() {
    is_released_.store(true);
    is_released_.notify_all();
  }
  TokenStream& stream() { return *stream_; }

 private:
  std::atomic<bool> is_released_{false};
  std::shared_ptr<TokenStream> stream_;
};

double n_timeouts(TestEngine& rig) {
  return rig.counter("millrace_choices_finished_total", "", {{"reason", "timeout"}});
}

void expect_all_blocks_free(TestEngine& rig) {
  EXPECT_EQ(rig.ask(greedy(20, 5)).ids.size(), 5U);  // the steps before are over
  for (int i = 0; i < 20'000 && rig.engine->stats().n_running > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(rig.engine->stats().blocks_free, rig.engine->stats().blocks_total);
}

class Deadline : public testing::Test {
 protected:
  const TestModel model_;
};

TEST_F(Deadline, ends_those_that_wait_with_an_error_that_names_it) {
  EngineOptions options;
  options.max_sequences = 1;
  TestEngine rig(model_.path(), options);
  Hold hold(rig);
  Request several = greedy(10, 5);
  several.n = 2;
  several.timeout_ms = 3;
  const auto overdue = rig.submit(several);
  Request patient = greedy(10, 5);
  patient.timeout_ms = kMaxTimeoutMilliseconds;
  const auto in_time = rig.submit(patient);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  hold.release();
  for (const auto& [choice, answer] : read_all(*overdue)) {
    EXPECT_TRUE(answer.ids.empty());
    EXPECT_EQ(answer.finish.reason, FinishReason::kError);
    EXPECT_EQ(answer.finish.error.code, ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(answer.finish.error.message, HasSubstr("3 ms (timeout_ms)"));
    EXPECT_THAT(answer.finish.error.message, HasSubstr("waited for its turn"));
  }
  EXPECT_EQ(read_all(hold.stream()).at(0).finish.reason, FinishReason::kLength);
  EXPECT_EQ(read_all(*in_time).at(0).finish.reason, FinishReason::kLength);
  EXPECT_EQ(n_timeouts(rig), 2);
  expect_all_blocks_free(rig);
}

// The first token of the request lets its own deadline pass.
TEST_F(Deadline, ends_those_that_run_with_what_they_have_and_nobody_else_notices) {
  EngineOptions options;
  options.max_drafts = 0;
  TestEngine rig(model_.path(), options);
  const Answer whole = rig.ask(greedy(20, 300));
  const Answer other_alone = rig.ask(greedy(40, 60, 1));
  Request request = greedy(20, 300);
  request.n = 2;
  request.n_logprobs = 1;
  request.timeout_ms = 2'000;
  request.received = Clock::now();
  const TimePoint deadline = *request.received + std::chrono::milliseconds(*request.timeout_ms);
  const auto other = rig.submit(greedy(40, 60, 1));
  const auto stream =
      *rig.engine->submit(request, [&] { std::this_thread::sleep_until(deadline); });
  const auto answers = read_all(*stream);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_FALSE(answers.at(0).ids.empty());
  for (const auto& [choice, answer] : answers) {
    EXPECT_EQ(answer.finish.reason, FinishReason::kTimeout);
    EXPECT_LT(answer.ids.size(), whole.ids.size());
    EXPECT_EQ(answer.finish.usage.completion_tokens, std::ssize(answer.ids));
    EXPECT_TRUE(std::ranges::equal(answer.ids, std::span(whole.ids).first(answer.ids.size())));
    EXPECT_TRUE(whole.text.starts_with(answer.text));
  }
  const Answer beside = read_all(*other).at(0);
  EXPECT_EQ(beside.ids, other_alone.ids);
  EXPECT_EQ(beside.finish.reason, FinishReason::kLength);
  EXPECT_EQ(n_timeouts(rig), 2);
  expect_all_blocks_free(rig);
}

TEST_F(Deadline, counts_from_when_the_request_was_received) {
  TestEngine rig(model_.path());
  Request request = greedy(20, 5);
  request.timeout_ms = 1'000;
  request.received = Clock::now() - std::chrono::seconds(2);
  const Answer answer = rig.ask(request);
  EXPECT_EQ(answer.finish.error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(rig.engine->stats().steps, 0);
  request.received = std::nullopt;
  request.timeout_ms = kMaxTimeoutMilliseconds;
  EXPECT_EQ(rig.ask(request).finish.reason, FinishReason::kLength);
}

// One of two prompts sent together has begun to answer: the other one ends with nothing, in order.
TEST_F(Deadline, prompts_sent_together_come_to_something_together) {
  EngineOptions options;
  options.max_sequences = 1;
  TestEngine rig(model_.path(), options);
  Request first = greedy(20, 50);
  first.group = std::make_shared<RequestGroup>();
  first.timeout_ms = 2'000;
  first.received = Clock::now();
  Request second = greedy(10, 5);
  second.group = first.group;
  second.timeout_ms = first.timeout_ms;
  second.received = first.received;
  Hold hold(rig, first);
  const auto waiting = rig.submit(second);
  std::this_thread::sleep_until(*first.received + std::chrono::milliseconds(*first.timeout_ms));
  hold.release();
  const Answer answer = read_all(*waiting).at(0);
  EXPECT_EQ(answer.finish.reason, FinishReason::kTimeout);
  EXPECT_TRUE(answer.ids.empty());
  EXPECT_EQ(read_all(hold.stream()).at(0).finish.reason, FinishReason::kTimeout);
  expect_all_blocks_free(rig);
}

// Thirty long prompts of one client, then a short one of another.
TEST(Fairness, one_request_does_not_wait_for_the_flood_of_another_client) {
  const TestModel model;
  for (const bool is_fair : {false, true}) {
    EngineOptions options;
    options.max_sequences = 1;
    options.is_fair = is_fair;
    TestEngine rig(model.path(), options);
    Hold hold(rig);
    std::vector<std::shared_ptr<TokenStream>> flood;
    for (int i = 0; i < 30; ++i) {
      Request request = greedy(100, 3, i);
      request.client = 7;
      request.priority = -kMaxPriority;
      flood.push_back(rig.submit(request));
    }
    Request other = greedy(10, 3, 99);
    other.client = 3;
    const auto stream = rig.submit(other);
    hold.release();
    const double waited = read_all(*stream).at(0).finish.timings.queue_seconds;
    int64_t n_later = 0;  // of the flood, begun after the other one
    for (const auto& one : flood) {
      n_later += read_all(*one).at(0).finish.timings.queue_seconds > waited ? 1 : 0;
    }
    if (is_fair) {
      EXPECT_GE(n_later, 15);
    } else {
      EXPECT_EQ(n_later, 0);
    }
  }
}

}  // namespace
}  // namespace millrace

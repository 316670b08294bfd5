// Draft models that fall short of their target: answers stay the same.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/test_engine.h"

namespace millrace {
namespace {

Request request(int n_prompt, uint64_t seed) {
  Request request;
  request.prompt = some_prompt(n_prompt, static_cast<int>(seed));
  request.max_tokens = 40;
  request.ignore_eos = true;
  request.sampling.temperature = 0.8F;
  request.seed = seed;
  request.n_logprobs = 1;
  return request;
}

EngineOptions plain_options() {
  EngineOptions options;
  options.max_drafts = 0;
  return options;
}

class DraftEngineTest : public testing::Test {
 protected:
  DraftEngineTest() : plain_(target_.path(), plain_options()) {}

  // Every answer as without a draft model; returns how many guesses were right.
  int64_t check(TestEngine& rig, std::initializer_list<int> prompt_lengths) {
    for (const int n_prompt : prompt_lengths) {
      for (const uint64_t seed : {1U, 2U}) {
        const Answer expected = plain_.ask(request(n_prompt, seed));
        const Answer answer = rig.ask(request(n_prompt, seed));
        EXPECT_EQ(answer.ids, expected.ids) << n_prompt;
        EXPECT_EQ(answer.logprobs, expected.logprobs) << n_prompt;
      }
    }
    return rig.engine->stats().accepted_drafts;
  }

  static EngineOptions drafting_options() {
    EngineOptions options;
    options.adapts_drafts = false;
    options.max_drafts = 6;
    options.max_batch_tokens = 64;  // catching up takes several steps
    options.prefill_chunk = 64;
    options.max_sequences = 4;
    return options;
  }

  TestModel target_;
  TestEngine plain_;
};

TEST_F(DraftEngineTest, window_shorter_than_the_target_s_ends_guessing_and_nothing_else) {
  const TestModel draft([](ModelShape& shape) { shape.context_length = 128; });
  TestEngine rig(target_.path(), drafting_options(), draft.path());
  EXPECT_GT(check(rig, {10, 100, 120, 127, 128, 129, 300}), 50);
}

TEST_F(DraftEngineTest, draft_model_that_gives_nan_guesses_nothing) {
  const TestModel draft(DType::kF32, 3e37F);  // products overflow
  TestEngine rig(target_.path(), drafting_options(), draft.path());
  EXPECT_EQ(check(rig, {10, 100}), 0);
}

// While others wait nobody guesses, and the draft model falls behind.
TEST_F(DraftEngineTest, draft_model_that_fell_behind_catches_up) {
  TestEngine rig(target_.path(), drafting_options(), target_.path());
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t i = 0; i < 12; ++i) {
    Request one = request(20, i);
    one.max_tokens = i < 3 ? 300 : 60;
    one.cache_salt = std::to_string(i);
    streams.push_back(rig.submit(one));
  }
  for (uint64_t i = 0; i < 12; ++i) {
    Request one = request(20, i);
    one.max_tokens = i < 3 ? 300 : 60;
    EXPECT_EQ(read_all(*streams[i]).at(0).ids, plain_.ask(one).ids) << i;
  }
  EXPECT_GT(rig.engine->stats().accepted_drafts, 100);
  EXPECT_EQ(rig.engine->stats().rejected_drafts, 0);
}

TEST_F(DraftEngineTest, expected_answer_is_guessed_from_and_changes_nothing) {
  EngineOptions options = drafting_options();
  const Request asked = request(50, 3);
  const Answer expected = plain_.ask(asked);
  Request right = asked;
  right.prediction = expected.ids;
  Request wrong_end = right;
  for (size_t i = 20; i < wrong_end.prediction.size(); ++i) wrong_end.prediction[i] = 1;
  for (const Request& guided : {right, wrong_end}) {
    TestEngine rig(target_.path(), options);  // no earlier answer to copy
    const Answer answer = rig.ask(guided);
    EXPECT_EQ(answer.ids, expected.ids);
    EXPECT_EQ(answer.logprobs, expected.logprobs);
    EXPECT_GE(answer.finish.usage.accepted_drafts, guided.prediction == right.prediction ? 30 : 15);
  }
  Request outside = asked;
  outside.prediction = {-1};
  EXPECT_FALSE(plain_.engine->submit(outside));
}

TEST_F(DraftEngineTest, guesses_come_only_from_where_they_may) {
  Request asked = request(50, 4);
  asked.prediction = plain_.ask(asked).ids;
  EngineOptions options = drafting_options();
  options.copies_drafts = false;
  TestEngine without_copies(target_.path(), options);
  EXPECT_EQ(without_copies.ask(asked).finish.usage.accepted_drafts, 0);
  TestEngine rig(target_.path(), drafting_options(), target_.path());
  asked.is_speculative = false;
  const Answer alone = rig.ask(asked);
  EXPECT_EQ(alone.finish.usage.accepted_drafts + alone.finish.usage.rejected_drafts, 0);
  asked.is_speculative = true;
  EXPECT_EQ(rig.ask(asked).ids, alone.ids);
  const EngineStats stats = rig.engine->stats();
  EXPECT_EQ(std::accumulate(stats.accepted_at.begin(), stats.accepted_at.end(), int64_t{0}),
            stats.accepted_drafts);
  EXPECT_GT(stats.accepted_at[0], stats.accepted_at[5]);
  EXPECT_GT(stats.accepted_at[5], 0);
  EXPECT_EQ(stats.accepted_at[6], 0);  // drafts are six tokens
}

// A guess is a guess at one token. The second answer keeps the third's prompt waiting until there
// have been guesses for the first; then come steps in which nobody guesses.
TEST_F(DraftEngineTest, steps_without_guesses_do_not_count_against_copies) {
  EngineOptions options = drafting_options();
  options.max_sequences = 2;
  TestEngine rig(target_.path(), options);
  Request guided = request(20, 5);
  guided.max_tokens = 66;
  guided.prediction = plain_.ask(guided).ids;
  Request second = request(20, 6);
  second.is_speculative = false;
  second.max_tokens = 8;
  Request third = request(440, 7);
  third.max_tokens = 1;
  const auto first_answer = rig.submit(guided);
  const auto second_answer = rig.submit(second);
  const auto third_answer = rig.submit(third);
  const Answer answer = read_all(*first_answer).at(0);
  EXPECT_EQ(answer.ids, guided.prediction);
  EXPECT_GT(answer.finish.usage.accepted_drafts, 30);
  EXPECT_GT(rig.engine->stats().copy_rate, 0.9);
  read_all(*second_answer);
  read_all(*third_answer);
}

// Nobody who waits could start while the first one runs, so its drafts cost them nothing.
TEST_F(DraftEngineTest, those_that_wait_do_not_stop_the_guesses_of_those_that_run) {
  EngineOptions options = drafting_options();
  options.max_sequences = 1;
  TestEngine rig(target_.path(), options, target_.path());
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (const uint64_t seed : {1U, 2U, 3U}) {
    Request next = request(20, seed);
    next.cache_salt = std::to_string(seed);
    streams.push_back(rig.submit(next));
  }
  for (const auto& stream : streams) {
    EXPECT_GT(read_all(*stream).at(0).finish.usage.accepted_drafts, 25);
  }
}

}  // namespace
}  // namespace millrace

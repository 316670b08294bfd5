#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/clock.h"
#include "engine/test_engine.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class EngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = std::make_unique<TestModel>(); }
  static void TearDownTestSuite() { model_.reset(); }

  static Request greedy(int n_prompt, int64_t max_tokens) {
    Request request;
    request.prompt = some_prompt(n_prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    return request;
  }

  // Sampled, with a figure for every token.
  static Request sampled(int n_prompt, int64_t max_tokens, uint64_t seed) {
    Request request = greedy(n_prompt, max_tokens);
    request.sampling.temperature = 0.8F;
    request.seed = seed;
    request.n_logprobs = 3;
    return request;
  }

  static void expect_all_blocks_free(const Engine& engine) {
    // Freed right after the last event went out: the step may not be quite over.
    const auto is_settled = [&] {
      const EngineStats stats = engine.stats();
      return stats.blocks_free == stats.blocks_total && stats.n_running + stats.n_waiting == 0;
    };
    for (int i = 0; i < 20'000 && !is_settled(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(engine.stats().blocks_free, engine.stats().blocks_total);
    EXPECT_TRUE(is_settled());
  }

  static std::unique_ptr<TestModel> model_;
};

std::unique_ptr<TestModel> EngineTest::model_;

TEST_F(EngineTest, answers_with_exactly_the_tokens_asked_for_and_counts_them) {
  TestEngine rig(model_->path());
  const Answer answer = rig.ask(greedy(70, 12));
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(answer.ids.size(), 12U);
  EXPECT_EQ(answer.finish.usage.prompt_tokens, 70);
  EXPECT_EQ(answer.finish.usage.completion_tokens, 12);
  EXPECT_EQ(answer.finish.usage.cached_tokens, 0);
  EXPECT_GT(answer.finish.timings.prefill_seconds, 0);
  EXPECT_EQ(answer.text, rig.engine->tokenizer().decode(answer.ids));
  EXPECT_EQ(rig.engine->stats().generated_tokens, 12);
  expect_all_blocks_free(*rig.engine);
}

TEST_F(EngineTest, same_seed_gives_the_same_answer_and_the_reported_seed_repeats_an_unseeded_one) {
  TestEngine rig(model_->path());
  EXPECT_EQ(rig.ask(sampled(20, 30, 5)).ids, rig.ask(sampled(20, 30, 5)).ids);
  EXPECT_NE(rig.ask(sampled(20, 30, 5)).ids, rig.ask(sampled(20, 30, 6)).ids);
  Request unseeded = sampled(20, 30, 0);
  unseeded.seed.reset();
  const Answer first = rig.ask(unseeded);
  const Answer second = rig.ask(unseeded);
  EXPECT_NE(first.finish.seed, second.finish.seed);
  EXPECT_EQ(rig.ask(sampled(20, 30, first.finish.seed)).ids, first.ids);
}

TEST_F(EngineTest, end_token_ends_the_answer_and_is_no_part_of_it) {
  TestEngine rig(model_->path());
  const Answer whole = rig.ask(greedy(20, 20));
  Request request = greedy(20, 20);
  request.stop_tokens = {whole.ids[7]};
  const Answer stopped = rig.ask(request);
  const auto first = std::find(whole.ids.begin(), whole.ids.end(), whole.ids[7]);
  EXPECT_EQ(stopped.ids, std::vector<TokenId>(whole.ids.begin(), first));
  EXPECT_EQ(stopped.finish.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.finish.usage.completion_tokens, static_cast<int64_t>(stopped.ids.size()));
  request.min_tokens = 12;  // now it is not drawn before
  const Answer later = rig.ask(request);
  EXPECT_GE(later.ids.size(), 12U);
  EXPECT_EQ(std::find(later.ids.begin(), later.ids.end(), whole.ids[7]), later.ids.end());
}

// The draft model is the target: all drafts up to the end are right, the end token among them.
TEST_F(EngineTest, draft_that_ends_the_answer_counts_as_accepted) {
  EngineOptions options;
  options.max_drafts = kMaxDrafts;
  options.adapts_drafts = false;
  TestEngine rig(model_->path(), options, model_->path());
  Request request = sampled(10, 20, 3);
  const Answer whole = rig.ask(request);
  const auto at = std::ranges::find(whole.ids, whole.ids[6]) - whole.ids.begin();
  ASSERT_GT(at, 1);
  request.stop_tokens = {whole.ids[6]};
  request.cache_salt = "no guesses from the answer before";
  const EngineStats before = rig.engine->stats();
  const Answer stopped = rig.ask(request);
  ASSERT_EQ(std::ssize(stopped.ids), at);
  EXPECT_EQ(rig.engine->stats().steps - before.steps, 2);
  EXPECT_EQ(stopped.finish.usage.accepted_drafts, at);
  EXPECT_EQ(rig.engine->stats().accepted_drafts - before.accepted_drafts, at);
  EXPECT_EQ(stopped.finish.usage.rejected_drafts,
            rig.engine->stats().rejected_drafts - before.rejected_drafts);
}

TEST_F(EngineTest, stop_string_cuts_text_ids_and_usage_at_one_point) {
  TestEngine rig(model_->path());
  Request request = sampled(20, 40, 3);
  const Answer whole = rig.ask(request);
  ASSERT_GT(whole.text.size(), 10U);
  size_t at = whole.text.size() / 2;
  while ((whole.text[at] & 0x80) != 0) {  // an ASCII byte: no character is cut
    ++at;
  }
  request.stop = {whole.text.substr(at, 1)};
  const Answer stopped = rig.ask(request);
  EXPECT_EQ(stopped.finish.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.finish.stop_string, request.stop[0]);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(request.stop[0])));
  EXPECT_EQ(stopped.finish.usage.completion_tokens, static_cast<int64_t>(stopped.ids.size()));
  EXPECT_LT(stopped.ids.size(), whole.ids.size());
  ASSERT_LE(stopped.ids.size(), whole.ids.size());
  EXPECT_TRUE(std::equal(stopped.ids.begin(), stopped.ids.end(), whole.ids.begin()));
}

TEST_F(EngineTest, choices_differ_by_child_seeds_and_each_equals_its_own_request) {
  TestEngine rig(model_->path());
  Request request = sampled(30, 15, 42);
  request.n = 3;
  const auto answers = rig.ask_all(request);
  ASSERT_EQ(answers.size(), 3U);
  int n_last = 0;
  for (int choice = 0; choice < 3; ++choice) {
    const Answer alone = rig.ask(sampled(30, 15, child_seed(42, choice)));
    EXPECT_EQ(answers.at(choice).ids, alone.ids);
    EXPECT_EQ(answers.at(choice).logprobs, alone.logprobs);
    EXPECT_EQ(answers.at(choice).finish.seed, 42U);
    n_last += answers.at(choice).finish.is_last ? 1 : 0;
  }
  EXPECT_EQ(n_last, 1);
  EXPECT_NE(answers.at(0).ids, answers.at(1).ids);
  EXPECT_EQ(child_seed(42, 0), 42U);
}

TEST_F(EngineTest, prompt_logprobs_of_an_answer_equal_those_it_was_generated_with) {
  TestEngine rig(model_->path());
  const Answer generated = rig.ask(sampled(130, 20, 9));
  Request request = greedy(130, 0);
  request.prompt.insert(request.prompt.end(), generated.ids.begin(), generated.ids.end());
  request.prompt_logprobs = 3;
  const Answer scored = rig.ask(request);
  EXPECT_EQ(scored.finish.reason, FinishReason::kLength);
  EXPECT_TRUE(scored.ids.empty());
  ASSERT_EQ(scored.prompt.entries.size(), 150U);
  EXPECT_TRUE(std::isnan(scored.prompt.entries[0].logprob));
  EXPECT_TRUE(scored.prompt.entries[0].top.empty());
  for (size_t i = 0; i < 150; ++i) {
    const PromptEvent::Entry& entry = scored.prompt.entries[i];
    EXPECT_EQ(entry.token, request.prompt[i]);
    if (i >= 130) {
      EXPECT_EQ(entry.logprob, generated.logprobs[i - 130]) << i;  // bit for bit
      ASSERT_EQ(entry.top.size(), 3U);
      EXPECT_EQ(entry.top[0].token, generated.top[i - 130][0].token);
    }
  }
}

TEST_F(EngineTest, prompt_logprobs_and_an_answer_come_in_one_request) {
  TestEngine rig(model_->path());
  Request request = sampled(100, 10, 4);
  const Answer plain = rig.ask(request);
  request.prompt_logprobs = 0;
  request.n = 2;
  const auto answers = rig.ask_all(request);
  EXPECT_EQ(answers.at(0).ids, plain.ids);
  EXPECT_EQ(answers.at(0).logprobs, plain.logprobs);
  EXPECT_EQ(answers.at(0).prompt.entries.size(), 100U);
  EXPECT_EQ(answers.at(1).prompt.entries.size(), 100U);
}

// Whether a token is sampled behind the prompt or not, in one chunk or in several.
TEST_F(EngineTest, prompt_logprobs_are_the_same_with_and_without_an_answer) {
  for (const int n_prompt : {2, 64, 100}) {
    TestEngine rig(model_->path());
    Request request = greedy(n_prompt, 0);
    request.prompt_logprobs = 1;
    const Answer alone = rig.ask(request);
    request.max_tokens = 3;
    const Answer followed = rig.ask(request);
    ASSERT_EQ(followed.prompt.entries.size(), alone.prompt.entries.size());
    for (size_t i = 1; i < alone.prompt.entries.size(); ++i) {
      EXPECT_EQ(followed.prompt.entries[i].token, request.prompt[i]) << n_prompt << " " << i;
      EXPECT_EQ(followed.prompt.entries[i].token, alone.prompt.entries[i].token);
      EXPECT_EQ(followed.prompt.entries[i].logprob, alone.prompt.entries[i].logprob);
    }
  }
}

TEST_F(EngineTest, without_max_tokens_the_answer_fills_the_window_and_no_more) {
  EngineOptions options;
  options.max_model_len = 128;
  TestEngine rig(model_->path(), options);
  Request request = greedy(100, 0);
  request.max_tokens.reset();
  const Answer answer = rig.ask(request);
  EXPECT_EQ(answer.ids.size(), 28U);
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  request.max_tokens = 29;
  const auto refused = rig.engine->submit(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
}

TEST_F(EngineTest, logit_bias_and_penalties_reach_the_sampler) {
  TestEngine rig(model_->path());
  Request request = greedy(10, 6);
  request.sampling.logit_bias = {{77, 100}};
  EXPECT_THAT(rig.ask(request).ids, testing::Each(77));
  request.sampling.frequency_penalty = 2;
  request.sampling.logit_bias = {{77, 3}};
  const Answer answer = rig.ask(request);
  EXPECT_LT(std::count(answer.ids.begin(), answer.ids.end(), 77), 6);
}

TEST_F(EngineTest, model_that_gives_nan_ends_the_request_with_an_error_and_no_token) {
  const TestModel nonsense(DType::kF32, 3e37F);  // products overflow
  TestEngine rig(nonsense.path());
  const Answer answer = rig.ask(greedy(5, 5));
  EXPECT_EQ(answer.finish.reason, FinishReason::kError);
  EXPECT_EQ(answer.finish.error.code, ErrorCode::kInternal);
  EXPECT_TRUE(answer.ids.empty());
  expect_all_blocks_free(*rig.engine);
}

TEST_F(EngineTest, cancel_works_in_decode_in_prefill_and_in_the_queue) {
  EngineOptions options;
  options.max_sequences = 2;
  options.prefill_chunk = 64;
  TestEngine rig(model_->path(), options);
  const auto decoding = rig.submit(greedy(3, 1'900));
  StreamEvent event;
  ASSERT_TRUE(decoding->wait_next(event));
  const auto prefilling = rig.submit(greedy(1'900, 100));
  const auto queued = rig.submit(greedy(3, 5));
  queued->cancel();
  prefilling->cancel();
  for (const auto& stream : {queued, prefilling}) {
    const Answer answer = read_all(*stream).at(0);
    EXPECT_EQ(answer.finish.reason, FinishReason::kCancelled);
    EXPECT_TRUE(answer.ids.empty());
  }
  decoding->cancel();
  const Answer answer = read_all(*decoding).at(0);
  EXPECT_EQ(answer.finish.reason, FinishReason::kCancelled);
  EXPECT_LT(answer.ids.size(), 1'899U);
  expect_all_blocks_free(*rig.engine);
}

TEST_F(EngineTest, dropping_the_stream_cancels) {
  TestEngine rig(model_->path());
  rig.submit(greedy(3, 1'900));
  expect_all_blocks_free(*rig.engine);
  EXPECT_LT(rig.engine->stats().generated_tokens, 1'900);
}

TEST_F(EngineTest, full_queue_is_refused_and_has_room_again_later) {
  EngineOptions options;
  options.max_sequences = 1;
  options.max_waiting = 2;
  TestEngine rig(model_->path(), options);
  const auto running = rig.submit(greedy(3, 1'900));
  StreamEvent event;
  ASSERT_TRUE(running->wait_next(event));  // admitted: it does not wait any more
  Request pair = greedy(3, 2);
  pair.n = 2;
  const auto waiting = rig.submit(pair);
  const auto refused = rig.engine->submit(greedy(3, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  running->cancel();
  EXPECT_EQ(read_all(*waiting).size(), 2U);
  EXPECT_EQ(rig.ask(greedy(3, 2)).ids.size(), 2U);
}

TEST_F(EngineTest, requests_submitted_together_are_queued_all_or_none_and_told_what_room_there_is) {
  EngineOptions options;
  options.max_sequences = 1;
  options.max_waiting = 4;
  TestEngine rig(model_->path(), options);
  const auto running = rig.submit(greedy(3, 1'900));
  StreamEvent event;
  ASSERT_TRUE(running->wait_next(event));
  const auto refusal_of = [&](std::vector<Request> requests) {
    const auto refused = rig.engine->submit_all(std::move(requests));
    EXPECT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    return refused ? "" : refused.error().message;
  };
  const auto first = rig.submit(greedy(3, 2));
  Request pair = greedy(3, 2);
  pair.n = 2;
  EXPECT_EQ(refusal_of({pair, pair}),
            "the queue has room for 3 answers, this request has 4 (at most 4 may wait)");
  EXPECT_EQ(rig.engine->stats().n_waiting, 1);
  const auto together = rig.engine->submit_all({pair, greedy(3, 2)});
  ASSERT_TRUE(together);
  EXPECT_EQ(refusal_of({greedy(3, 2)}),
            "the queue is full: 4 answers waiting already, at most 4 may");
  running->cancel();
  ASSERT_EQ(together->size(), 2U);
  EXPECT_EQ(read_all(*together->at(0)).size(), 2U);
  EXPECT_EQ(read_all(*together->at(1)).size(), 1U);
  EXPECT_EQ(read_all(*first).size(), 1U);
}

TEST_F(EngineTest, more_choices_than_may_wait_are_refused_for_good_and_not_as_a_full_queue) {
  EngineOptions options;
  options.max_waiting = 2;
  TestEngine rig(model_->path(), options);
  Request three = greedy(3, 2);
  three.n = 3;
  const auto refused = rig.engine->submit(three);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("at most 2"), std::string::npos);
}

TEST_F(EngineTest, warming_up_counts_as_nothing_and_changes_nothing) {
  TestEngine cold(model_->path());
  EngineOptions options;
  options.warms_up = true;
  TestEngine warm(model_->path(), options);
  EXPECT_EQ(warm.engine->stats().steps, 0);
  EXPECT_EQ(warm.engine->stats().prompt_tokens, 0);
  EXPECT_EQ(warm.engine->stats().blocks_free, cold.engine->stats().blocks_free);
  EXPECT_EQ(warm.ask(greedy(10, 20)).ids, cold.ask(greedy(10, 20)).ids);
}

TEST_F(EngineTest, drain_lets_answers_end_and_refuses_new_ones) {
  TestEngine rig(model_->path());
  const auto stream = rig.submit(greedy(10, 50));
  EXPECT_TRUE(rig.engine->drain(Clock::now() + std::chrono::minutes(5)));
  EXPECT_TRUE(rig.engine->is_draining());
  EXPECT_EQ(read_all(*stream).at(0).ids.size(), 50U);
  const auto refused = rig.engine->submit(greedy(3, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

TEST_F(EngineTest, drain_ends_at_its_deadline_and_every_stream_gets_its_last_event) {
  EngineOptions options;
  options.max_sequences = 1;
  TestEngine rig(model_->path(), options);
  const auto running = rig.submit(greedy(3, 2'000));
  const auto queued = rig.submit(greedy(3, 2'000));
  EXPECT_FALSE(rig.engine->drain(Clock::now()));
  for (const auto& stream : {running, queued}) {
    const Answer answer = read_all(*stream).at(0);
    EXPECT_EQ(answer.finish.reason, FinishReason::kError);
    EXPECT_EQ(answer.finish.error.code, ErrorCode::kUnavailable);
  }
}

TEST_F(EngineTest, many_threads_submit_and_each_gets_what_it_gets_alone) {
  TestEngine rig(model_->path());
  std::vector<Answer> alone;
  for (int i = 0; i < 8; ++i) {
    alone.push_back(rig.ask(sampled(10 + 20 * i, 25, static_cast<uint64_t>(i))));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        const Answer answer = rig.ask(sampled(10 + 20 * i, 25, static_cast<uint64_t>(i)));
        EXPECT_EQ(answer.ids, alone[static_cast<size_t>(i)].ids);
        EXPECT_EQ(answer.logprobs, alone[static_cast<size_t>(i)].logprobs);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  expect_all_blocks_free(*rig.engine);
}

TEST_F(EngineTest, metrics_tell_what_happened) {
  TestEngine rig(model_->path());
  rig.ask(greedy(20, 7));
  const std::string text = rig.metrics.expose();
  for (const char* line : {"millrace_prompt_tokens_total 20",
                           "millrace_generated_tokens_total 7",
                           "millrace_time_to_first_token_seconds_count 1",
                           "millrace_inter_token_seconds_count 6",
                           "millrace_choices_finished_total{reason=\"length\"} 1",
                           "millrace_preemptions_total 0"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(EngineTest, options_out_of_range_are_refused) {
  for (void (*spoil)(EngineOptions&) : {+[](EngineOptions& o) { o.n_threads = -1; },
                                        +[](EngineOptions& o) { o.max_sequences = 0; },
                                        +[](EngineOptions& o) { o.prefill_chunk = 100; },
                                        +[](EngineOptions& o) { o.max_model_len = 1 << 20; },
                                        +[](EngineOptions& o) { o.kv_memory = 1; }}) {
    EngineOptions options;
    options.n_threads = 1;
    spoil(options);
    auto files = open_model_files(model_->path());
    ASSERT_TRUE(files);
    Metrics metrics;
    EXPECT_FALSE(Engine::create(std::move(*files), options, metrics));
  }
}

TEST(ModelFilesTest, draft_model_must_have_the_same_tokens) {
  const TestModel model;
  auto target = open_model_files(model.path());
  auto draft = open_model_files(model.path());
  ASSERT_TRUE(target && draft);
  EXPECT_TRUE(check_draft_files(*target, *draft));
  auto demo = open_model_files(MILLRACE_SOURCE_DIR "/models/demo/demo-draft.gguf");
  ASSERT_TRUE(demo) << demo.error().message;
  const auto refused = check_draft_files(*target, *demo);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("token "));
}

TEST(ModelFilesTest, a_missing_file_is_a_clear_error) {
  const auto missing = open_model_files("/nowhere/model.gguf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/nowhere/model.gguf"));
}

// The engine is held up between two steps of the first request while the others wait.
TEST_F(EngineTest, requests_that_wait_longer_than_allowed_end_with_an_error_that_says_so) {
  EngineOptions options;
  options.max_sequences = 1;
  options.max_queue_ms = 5;
  TestEngine rig(model_->path(), options);
  std::atomic<bool> is_everybody_there{false};
  Request sent_first = greedy(20, 50);
  sent_first.group = std::make_shared<RequestGroup>();
  Request sent_with_it = greedy(10, 5);
  sent_with_it.group = sent_first.group;
  auto first = rig.engine->submit(sent_first, [&] { is_everybody_there.wait(false); });
  ASSERT_TRUE(first);
  StreamEvent event;
  ASSERT_TRUE((*first)->wait_next(event));  // it has started
  Request several = greedy(10, 5);
  several.n = 2;
  const auto second = rig.submit(several);
  const auto together = rig.submit(sent_with_it);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  is_everybody_there.store(true);
  is_everybody_there.notify_one();
  for (const auto& [choice, answer] : read_all(*second)) {
    EXPECT_TRUE(answer.ids.empty());
    EXPECT_EQ(answer.finish.reason, FinishReason::kError);
    EXPECT_EQ(answer.finish.error.code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(answer.finish.error.message, HasSubstr("more than the 5 ms"));
  }
  EXPECT_EQ(read_all(**first).at(0).finish.reason, FinishReason::kLength);
  EXPECT_EQ(read_all(*together).at(0).finish.reason, FinishReason::kLength);
  expect_all_blocks_free(*rig.engine);
  EXPECT_EQ(rig.ask(greedy(20, 5)).ids.size(), 5U);
}

}  // namespace
}  // namespace millrace

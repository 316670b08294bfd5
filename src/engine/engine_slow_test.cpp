// Five minutes of requests that come, are cancelled, lose their readers, stop and are preempted,
// with guesses of every kind: every answer is, as far as it came, the one without any of that.
// For an hour of it, each time with other requests: --gtest_repeat=12 --gtest_shuffle.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>

#include "base/clock.h"
#include "engine/test_engine.h"

namespace millrace {
namespace {

constexpr auto kDuration = std::chrono::minutes(5);
constexpr int kQuestions = 60;
constexpr size_t kMaxLive = 24;

struct Question {
  Request request;
  std::map<int, Answer> expected;
};

Request some_request(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Request request;
  request.prompt = some_prompt(1 + below(120), below(3));  // beginnings are shared
  request.max_tokens = 1 + below(240);  // many blocks beyond those that admission asks for
  request.n = 1 + below(5) / 2;
  request.seed = random();
  request.priority = below(3);
  request.ignore_eos = below(2) == 0;
  request.min_tokens = below(4) == 0 ? std::min<int64_t>(*request.max_tokens, 10) : 0;
  request.sampling.temperature = below(2) == 0 ? 0.0F : 0.8F;
  if (below(3) == 0) {
    request.sampling.frequency_penalty = 0.3F;
    request.sampling.repetition_penalty = 1.1F;
  }
  if (below(3) == 0) {
    request.sampling.min_p = 0.02F;
    request.sampling.logit_bias = {{static_cast<TokenId>(below(256)), 3.0F}};
  }
  if (below(4) == 0) {
    request.n_logprobs = 2;
  }
  if (below(4) == 0) {
    request.cache_salt = "salt";
  }
  return request;
}

// Some end at a string that is in their answer.
std::vector<Question> make_questions(TestEngine& plain, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Question> questions;
  while (questions.size() < kQuestions) {
    Question question;
    question.request = some_request(random);
    question.expected = plain.ask_all(question.request);
    const std::string& text = question.expected.at(0).text;
    if (random() % 3 == 0 && text.size() > 10) {
      question.request.stop = {text.substr(text.size() / 2, 2)};
      question.expected = plain.ask_all(question.request);
    }
    if (random() % 4 == 0) {
      question.request.prediction = question.expected.at(0).ids;
    }
    questions.push_back(std::move(question));
  }
  return questions;
}

class Client {
 public:
  // timeout_ms: none when it is 0.
  Client(TestEngine& rig, const Question& question, int64_t timeout_ms, int who)
      : question_(question) {
    Request request = question.request;
    request.client = who;
    if (timeout_ms > 0) {
      request.timeout_ms = timeout_ms;
    }
    stream_ = rig.submit(std::move(request));
  }

  void cancel() {
    stream_->cancel();
    is_cancelled_ = true;
  }
  // Waits for something, so that a slow engine is given as much to do as a fast one, and reads
  // what there is; true when it was the last.
  bool read() {
    StreamEvent event;
    if (stream_->wait_next(event)) {
      take(event);
    }
    while (stream_->try_next(event)) {
      take(event);
    }
    return stream_->is_finished();
  }
  void read_to_the_end() {
    for (StreamEvent event; stream_->wait_next(event);) {
      take(event);
    }
  }

  int64_t n_ended = 0;      // choices, as they would have without others
  int64_t n_cancelled = 0;  // choices that were cut
  int64_t n_timeouts = 0;   // choices that had something at their deadline, or nothing

 private:
  void take(const StreamEvent& event) {
    const Answer& expected = question_.expected.at(event.choice);
    std::vector<TokenId>& ids = ids_[event.choice];
    std::string& text = text_[event.choice];
    if (const auto* token = std::get_if<TokenEvent>(&event.body)) {
      ASSERT_LT(ids.size(), expected.ids.size());
      ASSERT_EQ(token->token, expected.ids[ids.size()]);
      ids.push_back(token->token);
      text += token->text;
      return;
    }
    const auto* finish = std::get_if<FinishEvent>(&event.body);
    ASSERT_NE(finish, nullptr);
    text += finish->text;
    ASSERT_EQ(finish->usage.completion_tokens, std::ssize(ids));
    if (finish->reason == FinishReason::kTimeout ||
        finish->error.code == ErrorCode::kDeadlineExceeded) {
      ASSERT_TRUE(finish->reason == FinishReason::kTimeout || ids.empty());
      ASSERT_TRUE(expected.text.starts_with(text));
      ++n_timeouts;
      return;
    }
    ASSERT_NE(finish->reason, FinishReason::kError) << finish->error.message;
    if (finish->reason == FinishReason::kCancelled) {
      ASSERT_TRUE(is_cancelled_);
      ++n_cancelled;
      return;
    }
    ++n_ended;
    ASSERT_EQ(ids, expected.ids);
    ASSERT_EQ(text, expected.text);
    ASSERT_EQ(finish->reason, expected.finish.reason);
  }

  const Question& question_;
  std::shared_ptr<TokenStream> stream_;
  bool is_cancelled_ = false;
  std::map<int, std::vector<TokenId>> ids_;
  std::map<int, std::string> text_;
};

struct Totals {
  int64_t n_ended = 0;
  int64_t n_cancelled = 0;
  int64_t n_timeouts = 0;
  int64_t n_dropped = 0;
  int64_t n_preemptions = 0;
  int64_t n_accepted = 0;
  int64_t n_rejected = 0;
};

// Some hundred requests against one engine.
void play(TestEngine& rig,
          const std::vector<Question>& questions,
          std::mt19937& random,
          Totals& all) {
  std::vector<std::unique_ptr<Client>> clients;
  const auto leave = [&](size_t i) {
    all.n_ended += clients[i]->n_ended;
    all.n_cancelled += clients[i]->n_cancelled;
    all.n_timeouts += clients[i]->n_timeouts;
    clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int n_asked = 0; n_asked < 300 && !testing::Test::HasFatalFailure();) {
    // Some come one by one and some together, so that blocks run out on any machine.
    const uint64_t n_coming = random() % 2 == 0 ? 0 : random() % 4 == 0 ? 1 + random() % 12 : 1;
    for (uint64_t i = 0; i < n_coming && clients.size() < kMaxLive; ++i) {
      const auto timeout_ms = static_cast<int64_t>(random() % 10 == 0 ? 1 + random() % 20 : 0);
      clients.push_back(std::make_unique<Client>(
          rig, questions[random() % questions.size()], timeout_ms, static_cast<int>(random() % 3)));
      ++n_asked;
    }
    if (clients.empty()) {
      continue;
    }
    const size_t i = random() % clients.size();
    switch (random() % 16) {
      case 0:
        clients[i]->cancel();
        break;
      case 1:  // goes away without a word
        leave(i);
        ++all.n_dropped;
        break;
      case 2:
        clients[i]->read_to_the_end();
        leave(i);
        break;
      default:
        if (clients[i]->read()) {
          leave(i);
        }
    }
  }
  while (!clients.empty()) {
    clients[0]->read_to_the_end();
    leave(0);
  }
}

TEST(EngineFuzzSlow, answers_survive_five_minutes_of_everything) {
  const TestModel model;
  const TestModel rounded(DType::kQ4_0);
  EngineOptions plain_options;
  plain_options.max_drafts = 0;
  plain_options.has_prefix_cache = false;
  TestEngine plain(model.path(), plain_options);
  // 0, but another one in each repetition under --gtest_shuffle.
  const auto first_seed = static_cast<uint32_t>(testing::UnitTest::GetInstance()->random_seed());
  const std::vector<Question> questions = make_questions(plain, first_seed);
  const int64_t block_bytes = plain.engine->info().kv_bytes_per_token * 64;
  const TimePoint end = Clock::now() + kDuration;
  Totals all;
  for (uint32_t round = 0; Clock::now() < end; ++round) {
    std::seed_seq seeds = {first_seed, round};
    std::mt19937 random(seeds);
    EngineOptions options;
    options.max_model_len = 512;
    options.n_threads = 1 + static_cast<int>(random() % 3);
    options.max_sequences = 2 + static_cast<int>(random() % 12);
    options.max_drafts = 1 + static_cast<int>(random() % 8);
    options.adapts_drafts = random() % 2 == 0;
    options.copies_drafts = random() % 4 != 0;
    options.has_prefix_cache = random() % 4 != 0;
    options.prefill_chunk = random() % 2 == 0 ? 16 : 64;
    options.max_batch_tokens = 128;
    options.fills_steps = random() % 3 == 0;
    options.is_fair = random() % 3 == 0;
    const std::string drafts[] = {"", rounded.path(), model.path()};
    const std::string& draft = drafts[random() % 3];
    const uint64_t n_caches = draft.empty() ? 1 : 2;  // a draft model's blocks are as large
    options.kv_memory = (9 + random() % 8) * n_caches * static_cast<uint64_t>(block_bytes);
    TestEngine rig(model.path(), options, draft);
    play(rig, questions, random, all);
    ASSERT_FALSE(HasFailure()) << "seed " << first_seed << ", round " << round;
    const EngineStats stats = rig.engine->stats();
    all.n_preemptions += stats.preemptions;
    all.n_accepted += stats.accepted_drafts;
    all.n_rejected += stats.rejected_drafts;
  }
  std::printf(
      "%ld answers ended, %ld cancelled, %ld at their deadline, %ld readers left, %ld preemptions, "
      "%ld of %ld right\n",
      all.n_ended,
      all.n_cancelled,
      all.n_timeouts,
      all.n_dropped,
      all.n_preemptions,
      all.n_accepted,
      all.n_accepted + all.n_rejected);
  EXPECT_GT(all.n_ended, 500);
  EXPECT_GT(all.n_cancelled, 20);
  EXPECT_GT(all.n_timeouts, 20);
  EXPECT_GT(all.n_dropped, 20);
  EXPECT_GT(all.n_preemptions, all.n_ended / 200);
  EXPECT_GT(all.n_accepted, 1'000);
  EXPECT_GT(all.n_rejected, 100);
}

}  // namespace
}  // namespace millrace

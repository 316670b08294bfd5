// The equality matrix: token ids and log probabilities of a request are the same bit for bit alone
// and among strangers, in any chunking, with any number of threads, and after preemption.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/test_engine.h"
#include "kv/block_pool.h"

namespace millrace {
namespace {

constexpr int kPromptLengths[] = {1, 63, 64, 65, 200, 700};
constexpr int64_t kAnswerTokens = 24;

struct Surroundings {
  int chunk = 256;
  int n_threads = 1;
  bool has_strangers = false;

  std::string describe() const {
    return "chunk " + std::to_string(chunk) + ", threads " + std::to_string(n_threads) +
           (has_strangers ? ", among strangers" : ", alone");
  }
};

// Temperature 0, seeded 0.8, and seeded 0.8 with everything that shapes logits.
std::vector<Request> requests(int64_t max_tokens = kAnswerTokens) {
  std::vector<Request> all;
  for (const int length : kPromptLengths) {
    Request request;
    request.prompt = some_prompt(length, length);
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.n_logprobs = 5;
    request.seed = 1'000 + static_cast<uint64_t>(length);
    request.sampling.temperature = 0;
    all.push_back(request);
    request.sampling.temperature = 0.8F;
    all.push_back(request);
    request.sampling.top_p = 0.95F;
    request.sampling.min_p = 0.01F;
    request.sampling.repetition_penalty = 1.2F;
    request.sampling.frequency_penalty = 0.3F;
    all.push_back(request);
  }
  return all;
}

Request stranger(int salt, int64_t max_tokens) {
  Request request;
  request.prompt = some_prompt(5 + salt * 53 % 180, 900 + salt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.seed = static_cast<uint64_t>(salt);
  return request;
}

void expect_same(const Answer& answer, const Answer& expected) {
  ASSERT_EQ(answer.finish.reason, FinishReason::kLength);
  ASSERT_EQ(answer.ids, expected.ids);
  ASSERT_EQ(answer.text, expected.text);
  for (size_t i = 0; i < expected.ids.size(); ++i) {
    ASSERT_EQ(answer.logprobs[i], expected.logprobs[i]) << "token " << i;
    ASSERT_EQ(answer.top[i].size(), expected.top[i].size());
    for (size_t k = 0; k < expected.top[i].size(); ++k) {
      ASSERT_EQ(answer.top[i][k].token, expected.top[i][k].token);
      ASSERT_EQ(answer.top[i][k].logprob, expected.top[i][k].logprob);
    }
  }
}

// Each request by itself, one after the other.
std::vector<Answer> ask_alone(TestEngine& rig, const std::vector<Request>& all) {
  std::vector<Answer> answers;
  for (const Request& request : all) {
    answers.push_back(rig.ask(request));
  }
  return answers;
}

// All requests at once, with eight others before and between them.
std::vector<Answer> ask_among_strangers(TestEngine& rig,
                                        const std::vector<Request>& all,
                                        int64_t stranger_tokens) {
  std::vector<std::shared_ptr<TokenStream>> strangers;
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i < 8) {
      strangers.push_back(rig.submit(stranger(static_cast<int>(i), stranger_tokens)));
    }
    streams.push_back(rig.submit(all[i]));
  }
  std::vector<Answer> answers;
  for (const auto& stream : streams) {
    answers.push_back(read_all(*stream).at(0));
  }
  for (const auto& stream : strangers) {
    EXPECT_EQ(std::ssize(read_all(*stream).at(0).ids), stranger_tokens);
  }
  return answers;
}

class Equality : public testing::TestWithParam<DType> {
 protected:
  Equality() : model_(GetParam()) {
    EngineOptions options;
    options.n_threads = 1;
    TestEngine rig(model_.path(), options);
    expected_ = ask_alone(rig, requests());
  }

  void check(const Surroundings& around) {
    EngineOptions options;
    options.n_threads = around.n_threads;
    options.prefill_chunk = around.chunk;
    TestEngine rig(model_.path(), options);
    const std::vector<Answer> answers = around.has_strangers
                                            ? ask_among_strangers(rig, requests(), 60)
                                            : ask_alone(rig, requests());
    for (size_t i = 0; i < answers.size(); ++i) {
      expect_same(answers[i], expected_[i]);
      ASSERT_FALSE(HasFatalFailure()) << around.describe() << ", request " << i;
    }
  }

  TestModel model_;
  std::vector<Answer> expected_;
};

constexpr int kUnlimited = 2'048;  // the whole window in one chunk

TEST_P(Equality, any_chunking_alone) {
  for (const int chunk : {16, 64, 512, kUnlimited}) {
    check({.chunk = chunk});
  }
}

TEST_P(Equality, any_chunking_and_threads_among_eight_strangers) {
  for (const int chunk : {16, 64, 512, kUnlimited}) {
    for (const int n_threads : {1, 2, 3}) {
      check({.chunk = chunk, .n_threads = n_threads, .has_strangers = true});
    }
  }
}

TEST_P(Equality, any_threads_alone) {
  for (const int n_threads : {2, 3}) {
    check({.n_threads = n_threads});
  }
}

TEST_P(Equality, preempted_sequences_go_on_as_if_nothing_had_happened) {
  EngineOptions options;
  options.n_threads = 1;
  options.max_model_len = 1'024;
  std::vector<Request> all = requests(120);
  for (Request& request : all) {
    request.priority = 1;  // the first to be preempted
  }
  std::vector<Answer> expected;
  {
    TestEngine ample(model_.path(), options);
    expected = ask_alone(ample, all);
    ASSERT_EQ(ample.engine->stats().preemptions, 0);
    options.kv_memory = 30 * ample.engine->info().kv_bytes_per_token * kBlockTokens;
  }
  options.n_threads = 2;
  TestEngine tight(model_.path(), options);
  const std::vector<Answer> answers = ask_among_strangers(tight, all, 170);
  for (size_t i = 0; i < all.size(); ++i) {
    expect_same(answers[i], expected[i]);
    ASSERT_FALSE(HasFatalFailure()) << "request " << i;
  }
  EXPECT_GE(tight.engine->stats().preemptions, 5);
  EXPECT_GE(tight.engine->stats().recomputed_tokens, 300);
}

INSTANTIATE_TEST_SUITE_P(Weights,
                         Equality,
                         testing::Values(DType::kF32, DType::kQ8_0, DType::kQ4_K),
                         [](const auto& info) { return std::string(dtype_info(info.param).name); });

}  // namespace
}  // namespace millrace

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
std::vector<Request> requests() {
  std::vector<Request> all;
  for (const int length : kPromptLengths) {
    Request request;
    request.prompt = some_prompt(length, length);
    request.max_tokens = kAnswerTokens;
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

class Equality : public testing::TestWithParam<DType> {
 protected:
  Equality() : model_(GetParam()) {
    EngineOptions options;
    options.n_threads = 1;
    TestEngine rig(model_.path(), options);
    for (const Request& request : requests()) {
      expected_.push_back(rig.ask(request));
    }
  }

  void check(const Surroundings& around) {
    EngineOptions options;
    options.n_threads = around.n_threads;
    options.prefill_chunk = around.chunk;
    options.max_batch_tokens = std::max(512, around.chunk);
    TestEngine rig(model_.path(), options);
    const std::vector<Request> all = requests();
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<std::shared_ptr<TokenStream>> strangers;
      for (int s = 0; s < (around.has_strangers ? 8 : 0); ++s) {
        strangers.push_back(rig.submit(stranger(s + static_cast<int>(i), 30)));
      }
      const Answer answer = rig.ask(all[i]);
      expect_same(answer, expected_[i]);
      ASSERT_FALSE(HasFatalFailure()) << around.describe() << ", request " << i;
    }
    if (around.has_strangers) {
      EXPECT_GT(rig.engine->stats().generated_tokens, 2 * kAnswerTokens * std::ssize(all));
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
  for (const int n_threads : {1, 3}) {
    EngineOptions options;
    options.n_threads = n_threads;
    options.max_model_len = 1'024;
    int64_t block_bytes = 0;
    {
      TestEngine probe(model_.path(), options);
      block_bytes = probe.engine->info().kv_bytes_per_token * kBlockTokens;
    }
    options.kv_memory = 17 * block_bytes;
    TestEngine rig(model_.path(), options);
    const std::vector<Request> all = requests();
    int64_t n_preempted = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      Request request = all[i];
      request.priority = 1;  // the first to be preempted
      const int64_t before = rig.engine->stats().preemptions;
      const auto stream = rig.submit(request);
      std::vector<std::shared_ptr<TokenStream>> strangers;
      for (int s = 0; s < 8; ++s) {
        strangers.push_back(rig.submit(stranger(s, 170)));
      }
      expect_same(read_all(*stream).at(0), expected_[i]);
      ASSERT_FALSE(HasFatalFailure()) << "threads " << n_threads << ", request " << i;
      n_preempted += rig.engine->stats().preemptions > before ? 1 : 0;
    }
    EXPECT_GT(n_preempted, std::ssize(all) / 2);
    EXPECT_GT(rig.engine->stats().recomputed_tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Weights,
                         Equality,
                         testing::Values(DType::kF32, DType::kQ8_0, DType::kQ4_K),
                         [](const auto& info) { return std::string(dtype_info(info.param).name); });

}  // namespace
}  // namespace millrace

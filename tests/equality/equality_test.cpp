// The equality matrix: token ids and log probabilities of a request are the same bit for bit alone
// and among strangers, in any chunking, with any number of threads, after preemption, whatever part
// of it was in the cache or on disk, and however many of its tokens were guessed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

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
  bool has_cache = true;
  int max_drafts = 0;
  bool fills_steps = false;
  bool is_fair = false;

  std::string describe() const {
    return "chunk " + std::to_string(chunk) + ", threads " + std::to_string(n_threads) +
           (has_strangers ? ", among strangers" : ", alone") +
           (has_cache ? ", with cache" : ", without cache") + ", drafts " +
           std::to_string(max_drafts) + (fills_steps ? ", filled steps" : "") +
           (is_fair ? ", fair" : "");
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
    request.client = 1;
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
  request.client = salt % 3;
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

struct Formats {
  DType weights;
  std::optional<KvType> kv;  // absent: the default for the weights
};

class Equality : public testing::TestWithParam<Formats> {
 protected:
  Equality() : model_(GetParam().weights) {
    EngineOptions options;
    options.kv_type = GetParam().kv;
    options.n_threads = 1;
    options.has_prefix_cache = false;
    options.max_drafts = 0;
    TestEngine rig(model_.path(), options);
    expected_ = ask_alone(rig, requests());
  }

  static EngineOptions options_of(const Surroundings& around) {
    EngineOptions options;
    options.kv_type = GetParam().kv;
    options.n_threads = around.n_threads;
    options.prefill_chunk = around.chunk;
    options.has_prefix_cache = around.has_cache;
    options.max_drafts = around.max_drafts;
    options.adapts_drafts = false;
    options.fills_steps = around.fills_steps;
    options.is_fair = around.is_fair;
    return options;
  }

  void check(const Surroundings& around) {
    TestEngine rig(model_.path(), options_of(around));
    check(rig, around);
  }

  // Gives the tokens of the prompts that were in the cache.
  int64_t check(TestEngine& rig, const Surroundings& around) {
    const std::vector<Answer> answers = around.has_strangers
                                            ? ask_among_strangers(rig, requests(), 60)
                                            : ask_alone(rig, requests());
    int64_t n_cached = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      n_cached += answers[i].finish.usage.cached_tokens;
      expect_same(answers[i], expected_[i]);
      if (HasFatalFailure()) {
        ADD_FAILURE() << around.describe() << ", request " << i;
        break;
      }
    }
    EXPECT_EQ(n_cached > 0, around.has_cache) << around.describe();
    return n_cached;
  }

  TestModel model_;
  std::vector<Answer> expected_;
};

constexpr int kUnlimited = 2'048;  // the whole window in one chunk

TEST_P(Equality, any_chunking_alone) {
  for (const int chunk : {16, 64, 512, kUnlimited}) {
    for (const bool has_cache : {false, true}) {
      check({.chunk = chunk, .has_cache = has_cache});
    }
  }
}

// All the prompts' tokens but the last of each, which is always computed.
int64_t n_cacheable() {
  int64_t n = 0;
  for (const Request& request : requests()) {
    n += std::ssize(request.prompt) - 1;
  }
  return n;
}

TEST_P(Equality, prompts_that_are_wholly_in_the_cache) {
  for (const int chunk : {16, 64, 512, kUnlimited}) {
    for (const bool has_strangers : {false, true}) {
      const Surroundings around{.chunk = chunk, .n_threads = 2, .has_strangers = has_strangers};
      TestEngine rig(model_.path(), options_of(around));
      check(rig, around);
      EXPECT_EQ(check(rig, around), n_cacheable()) << around.describe();
    }
  }
}

TEST_P(Equality, prompts_whose_beginning_is_in_the_cache) {
  for (const int n_common : {1, 62, 63, 64, 65, 127, 128, 129, 190}) {
    for (const int chunk : {16, kUnlimited}) {
      const Surroundings around{.chunk = chunk, .has_strangers = chunk == 16};
      TestEngine rig(model_.path(), options_of(around));
      int64_t n_cached = 0;
      for (Request request : requests()) {
        const auto n = std::min<int64_t>(n_common, std::ssize(request.prompt) - 1);
        n_cached += n;
        request.prompt.resize(static_cast<size_t>(n));
        if (n > 0) {
          request.prompt.push_back(7);
          rig.ask(request);
        }
      }
      EXPECT_GE(check(rig, around), n_cached) << "common " << n_common;
    }
  }
}

// A folder that is removed with it.
struct Folder {
  Folder()
      : path(std::filesystem::temp_directory_path() /
             ("millrace_equality_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

// The engine is destroyed and made again over the same folder, in turns with and without a draft
// model, whose KV is kept too. Each request has a salt of its own: what it finds, it loads.
TEST_P(Equality, prompts_that_another_process_left_on_disk) {
  const Folder folder;
  std::vector<Request> all = requests();
  int64_t n_whole = 0;  // tokens of blocks that are worth loading
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].cache_salt = std::to_string(i);
    const int64_t n_blocks = std::ssize(all[i].prompt) / kBlockTokens;
    n_whole += n_blocks < 2 ? 0 : n_blocks * kBlockTokens;
  }
  for (const char* draft : {"", "itself"}) {
    for (int round = 0; round < 4; ++round) {
      const Surroundings around{.chunk = round == 1 ? 16 : kUnlimited,
                                .n_threads = 1 + round % 2,
                                .has_strangers = round == 3,
                                .max_drafts = *draft == 0 ? 0 : 4};
      EngineOptions options = options_of(around);
      options.kv_disk = folder.path.string();
      TestEngine rig(model_.path(), options, *draft == 0 ? "" : model_.path());
      const std::vector<Answer> answers =
          around.has_strangers ? ask_among_strangers(rig, all, 60) : ask_alone(rig, all);
      int64_t n_cached = 0;
      for (size_t i = 0; i < all.size(); ++i) {
        expect_same(answers[i], expected_[i]);
        ASSERT_FALSE(HasFatalFailure()) << around.describe() << ", request " << i;
        n_cached += answers[i].finish.usage.cached_tokens;
      }
      const EngineStats stats = rig.engine->stats();
      EXPECT_EQ(stats.loaded_tokens, round == 0 ? 0 : n_whole) << around.describe();
      EXPECT_GE(n_cached, stats.loaded_tokens);
      EXPECT_EQ(stats.refused_blocks, 0);
      if (*draft != 0 && !around.has_strangers) {
        EXPECT_EQ(stats.rejected_drafts, 0);  // the draft model's KV was right too
        EXPECT_GT(stats.accepted_drafts, 200);
      }
    }
  }
}

TEST_P(Equality, choices_that_share_one_prefill) {
  for (const bool has_strangers : {false, true}) {
    TestEngine rig(model_.path(), options_of({.n_threads = 2}));
    std::vector<std::shared_ptr<TokenStream>> strangers;
    for (int i = 0; has_strangers && i < 8; ++i) {
      strangers.push_back(rig.submit(stranger(i, 60)));
    }
    for (Request request : requests()) {
      std::vector<Answer> alone;
      request.n = 3;
      const auto answers = rig.ask_all(request);
      int64_t n_cached = 0;
      for (int choice = 0; choice < request.n; ++choice) {
        Request same = request;
        same.n = 1;
        same.seed = child_seed(*request.seed, choice);
        n_cached += answers.at(choice).finish.usage.cached_tokens;
        expect_same(answers.at(choice), rig.ask(same));
        ASSERT_FALSE(HasFatalFailure()) << "choice " << choice;
      }
      // The second and third find all but the last token of the prompt.
      if (std::ssize(request.prompt) > kBlockTokens) {
        EXPECT_GE(n_cached, 2 * (std::ssize(request.prompt) - 1));
      }
    }
    for (const auto& stream : strangers) {
      EXPECT_EQ(read_all(*stream).size(), 1U);
    }
  }
}

TEST_P(Equality, any_chunking_and_threads_among_eight_strangers) {
  for (const int chunk : {16, 64, 512, kUnlimited}) {
    for (const int n_threads : {1, 2, 3}) {
      check({.chunk = chunk,
             .n_threads = n_threads,
             .has_strangers = true,
             .has_cache = n_threads != 3,
             .fills_steps = n_threads != 1,
             .is_fair = n_threads == 2});
    }
  }
}

TEST_P(Equality, any_threads_alone) {
  for (const int n_threads : {2, 3}) {
    check({.n_threads = n_threads, .has_cache = false});
  }
}

TEST_P(Equality, preempted_sequences_go_on_as_if_nothing_had_happened) {
  EngineOptions options;
  options.kv_type = GetParam().kv;
  options.n_threads = 1;
  options.max_model_len = 1'024;
  std::vector<Request> all = requests(120);
  for (Request& request : all) {
    request.priority = 1;  // the first to be preempted
  }
  std::vector<Answer> expected;
  int64_t block_bytes = 0;
  {
    options.has_prefix_cache = false;
    options.max_drafts = 0;
    TestEngine ample(model_.path(), options);
    expected = ask_alone(ample, all);
    ASSERT_EQ(ample.engine->stats().preemptions, 0);
    block_bytes = ample.engine->info().kv_bytes_per_token * kBlockTokens;
  }
  options.n_threads = 2;
  for (const bool has_cache : {false, true}) {
    options.has_prefix_cache = has_cache;
    options.max_drafts = has_cache ? 8 : 0;
    options.fills_steps = has_cache;
    // How many are preempted depends on when each arrives: the pools count together.
    int64_t n_preemptions = 0;
    int64_t n_recomputed = 0;
    for (const int n_blocks : {17, 22, 26, 30}) {
      options.kv_memory = n_blocks * block_bytes;
      TestEngine tight(model_.path(), options);
      const std::vector<Answer> answers = ask_among_strangers(tight, all, 170);
      for (size_t i = 0; i < all.size(); ++i) {
        expect_same(answers[i], expected[i]);
        ASSERT_FALSE(HasFatalFailure()) << "request " << i << ", blocks " << n_blocks;
      }
      n_preemptions += tight.engine->stats().preemptions;
      n_recomputed += tight.engine->stats().recomputed_tokens;
    }
    EXPECT_GE(n_preemptions, 5);
    EXPECT_GE(n_recomputed, has_cache ? 100 : 300);
  }
}

TEST_P(Equality, drafted_tokens_of_every_number) {
  for (const int max_drafts : {1, 3, 8, kMaxDrafts}) {
    for (const bool has_strangers : {false, true}) {
      const Surroundings around{.n_threads = 2,
                                .has_strangers = has_strangers,
                                .has_cache = max_drafts != 3,
                                .max_drafts = max_drafts};
      TestEngine rig(model_.path(), options_of(around));
      for (int round = 0; round < 2; ++round) {  // in the second, answers of the first are guessed
        check(rig, around);
      }
      const EngineStats stats = rig.engine->stats();
      EXPECT_GT(stats.accepted_drafts, has_strangers ? 0 : 200) << around.describe();
      if (!has_strangers) {
        EXPECT_GT(stats.rejected_drafts, 0) << around.describe();
      }
    }
  }
}

// The draft model is the target itself: it draws with the same noise, so every guess is right.
TEST_P(Equality, draft_model_that_is_the_target_is_always_right) {
  for (const bool has_strangers : {false, true}) {
    const Surroundings around{.n_threads = 2, .has_strangers = has_strangers, .max_drafts = 5};
    TestEngine rig(model_.path(), options_of(around), model_.path());
    std::vector<Request> all = requests();
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].cache_salt = std::to_string(i);  // no guesses from earlier answers
    }
    const std::vector<Answer> answers =
        has_strangers ? ask_among_strangers(rig, all, 60) : ask_alone(rig, all);
    int64_t n_accepted = 0;
    int64_t n_rejected = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      expect_same(answers[i], expected_[i]);
      ASSERT_FALSE(HasFatalFailure()) << "request " << i;
      n_accepted += answers[i].finish.usage.accepted_drafts;
      n_rejected += answers[i].finish.usage.rejected_drafts;
    }
    EXPECT_GT(n_accepted, has_strangers ? 0 : 300);
    EXPECT_EQ(n_rejected, 0);
  }
}

// Another rounding of the same weights: right now and then.
TEST_P(Equality, draft_model_that_is_wrong_now_and_then) {
  const TestModel other(GetParam().weights == DType::kQ4_0 ? DType::kQ8_0 : DType::kQ4_0);
  EngineOptions options = options_of({.n_threads = 2, .max_drafts = 4});
  options.max_model_len = 1'024;
  for (const bool is_tight : {false, true}) {
    TestEngine rig(model_.path(), options, other.path());
    const std::vector<Answer> answers =
        is_tight ? ask_among_strangers(rig, requests(), 170) : ask_alone(rig, requests());
    for (size_t i = 0; i < answers.size(); ++i) {
      expect_same(answers[i], expected_[i]);
      ASSERT_FALSE(HasFatalFailure()) << "request " << i;
    }
    const EngineStats stats = rig.engine->stats();
    EXPECT_EQ(stats.preemptions > 0, is_tight);
    if (!is_tight) {
      EXPECT_GT(stats.accepted_drafts, 20);
      EXPECT_GT(stats.rejected_drafts, 20);
    }
    options.kv_memory = 30 * rig.engine->info().kv_bytes_per_token * kBlockTokens;
  }
}

// A stop string, an end token and the token limit may fall inside drafts that were right.
TEST_P(Equality, answers_that_end_among_their_drafts) {
  TestEngine plain(model_.path(), options_of({.has_cache = false}));
  TestEngine drafting(model_.path(), options_of({.max_drafts = 8}));
  for (const Request& request : requests(60)) {
    const Answer whole = plain.ask(request);
    for (const size_t at : {size_t{20}, size_t{35}, size_t{50}}) {
      Request by_length = request;
      by_length.max_tokens = static_cast<int64_t>(at);
      Request by_token = request;
      by_token.stop_tokens = {whole.ids[at]};
      by_token.min_tokens = static_cast<int64_t>(at) / 2;
      Request by_text = request;
      by_text.stop = {whole.text.substr(whole.text.size() * at / 60, 2)};
      for (const Request& ending : {by_length, by_token, by_text}) {
        const Answer expected = plain.ask(ending);
        drafting.ask(request);
        const Answer answer = drafting.ask(ending);
        ASSERT_EQ(answer.ids, expected.ids);
        ASSERT_EQ(answer.logprobs, expected.logprobs);
        ASSERT_EQ(answer.text, expected.text);
        ASSERT_EQ(answer.finish.reason, expected.finish.reason);
        ASSERT_EQ(answer.finish.usage.completion_tokens, expected.finish.usage.completion_tokens);
      }
    }
  }
  EXPECT_GT(drafting.engine->stats().accepted_drafts, 100);
  EXPECT_EQ(plain.engine->stats().accepted_drafts, 0);
}

INSTANTIATE_TEST_SUITE_P(Types,
                         Equality,
                         testing::Values(Formats{DType::kF32, {}},
                                         Formats{DType::kQ8_0, {}},
                                         Formats{DType::kQ4_K, {}},
                                         Formats{DType::kQ4_K, KvType::kInt8}),
                         [](const auto& info) {
                           const std::string kv =
                               info.param.kv ? std::string("_") + kv_type_name(*info.param.kv) : "";
                           return dtype_info(info.param.weights).name + kv;
                         });

}  // namespace
}  // namespace millrace

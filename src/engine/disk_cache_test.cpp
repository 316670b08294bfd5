// The prefix cache on disk through the engine: what a restart finds, what it must not find, and
// that no fault of the disk reaches a client.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/test_engine.h"
#include "kv/block_pool.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class DiskCache : public testing::Test {
 protected:
  DiskCache()
      : folder_(fs::temp_directory_path() /
                ("millrace_disk_cache_test_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~DiskCache() override { fs::remove_all(folder_); }

  EngineOptions options() const {
    EngineOptions result;
    result.kv_disk = folder_.string();
    result.max_drafts = 0;
    return result;
  }
  static Request request(int n_prompt, const std::string& salt = {}) {
    Request result;
    result.prompt = some_prompt(n_prompt);
    result.max_tokens = 4;
    result.ignore_eos = true;
    result.sampling.temperature = 0;
    result.cache_salt = salt;
    return result;
  }
  // What an engine of its own loads from the folder for the request.
  static int64_t loaded(const std::string& path,
                        const EngineOptions& options,
                        const Request& asked,
                        const std::string& draft_path = {}) {
    TestEngine rig(path, options, draft_path);
    const Answer answer = rig.ask(asked);
    EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
    const int64_t n = rig.engine->stats().loaded_tokens;
    EXPECT_EQ(answer.finish.usage.cached_tokens, n);
    EXPECT_EQ(rig.counter("millrace_prefix_cache_hits_total",
                          "Sequences that found some of their prompt's KV, by where",
                          {{"tier", "disk"}}),
              n > 0 ? 1 : 0);
    EXPECT_EQ(rig.counter("millrace_cached_prompt_tokens_total",
                          "Prompt tokens whose KV was found, by where",
                          {{"tier", "disk"}}),
              static_cast<double>(n));
    return n;
  }
  void change_segments(const std::function<void(std::string&)>& change) const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".kv") {
        std::ifstream in(entry.path(), std::ios::binary);
        std::string bytes{std::istreambuf_iterator<char>(in), {}};
        change(bytes);
        std::ofstream(entry.path(), std::ios::binary) << bytes;
      }
    }
  }

  const TestModel model_{DType::kQ8_0};
  const fs::path folder_;
};

TEST_F(DiskCache, prompt_is_found_after_a_restart_and_counted) {
  EXPECT_EQ(loaded(model_.path(), options(), request(300)), 0);
  EXPECT_EQ(loaded(model_.path(), options(), request(300)), 256);
  EXPECT_EQ(loaded(model_.path(), options(), request(256)), 255);  // the last token is computed
  EXPECT_EQ(loaded(model_.path(), options(), request(180)), 128);
  EXPECT_EQ(loaded(model_.path(), options(), request(120)), 0);  // one block is not worth it
}

TEST_F(DiskCache, answers_are_kept_with_their_prompts) {
  Request asked = request(100);
  asked.max_tokens = 100;
  std::vector<TokenId> conversation = asked.prompt;
  {
    TestEngine rig(model_.path(), options());
    const Answer answer = rig.ask(asked);
    conversation.insert(conversation.end(), answer.ids.begin(), answer.ids.end());
  }
  asked.prompt = conversation;
  asked.prompt.push_back(1);
  asked.max_tokens = 1;
  EXPECT_EQ(loaded(model_.path(), options(), asked), 192);
}

TEST_F(DiskCache, what_memory_has_given_away_comes_back_from_disk) {
  EngineOptions small = options();
  small.max_model_len = 320;
  {
    const TestEngine sizes(model_.path());
    small.kv_memory = 6 * kBlockTokens * sizes.engine->info().kv_bytes_per_token;
  }
  TestEngine rig(model_.path(), small);
  const Answer first = rig.ask(request(300));
  for (int salt = 1; salt <= 3; ++salt) {
    Request other = request(300);
    other.prompt = some_prompt(300, salt);
    rig.ask(other);
  }
  while (rig.engine->stats().unwritten_blocks > 0) {
    std::this_thread::yield();
  }
  const Answer again = rig.ask(request(300));
  EXPECT_EQ(again.ids, first.ids);
  EXPECT_EQ(again.finish.usage.cached_tokens, 256);
  EXPECT_EQ(rig.engine->stats().loaded_tokens, 256);
}

TEST_F(DiskCache, another_salt_another_page_type_and_another_model_miss) {
  EXPECT_EQ(loaded(model_.path(), options(), request(300, "a")), 0);
  EXPECT_EQ(loaded(model_.path(), options(), request(300, "b")), 0);
  EXPECT_EQ(loaded(model_.path(), options(), request(300)), 0);
  EXPECT_EQ(loaded(model_.path(), options(), request(300, "a")), 256);
  EngineOptions int8 = options();
  int8.kv_type = KvType::kInt8;
  EXPECT_EQ(loaded(model_.path(), int8, request(300, "a")), 0);
  EXPECT_EQ(loaded(model_.path(), int8, request(300, "a")), 256);
  const TestModel same_shape([](ModelShape& shape) {
    shape.dtype = DType::kQ8_0;
    shape.rms_eps *= 2;
  });
  EXPECT_EQ(loaded(same_shape.path(), options(), request(300, "a")), 0);
  EXPECT_EQ(loaded(model_.path(), options(), request(300, "a")), 256);
}

// A block has the pages of both models: what the draft model guesses from the loaded ones is right.
TEST_F(DiskCache, draft_model_finds_its_pages_after_a_restart) {
  EngineOptions drafting = options();
  drafting.max_drafts = 6;
  drafting.adapts_drafts = false;
  drafting.copies_drafts = false;
  Request asked = request(300);
  asked.max_tokens = 40;
  std::vector<Answer> answers;
  for (const bool is_stored : {false, true}) {
    TestEngine rig(model_.path(), drafting, model_.path());
    answers.push_back(rig.ask(asked));
    EXPECT_EQ(rig.engine->stats().loaded_tokens, is_stored ? 256 : 0);
    EXPECT_GT(answers.back().finish.usage.accepted_drafts, 25);
    EXPECT_EQ(answers.back().finish.usage.rejected_drafts, 0);
  }
  EXPECT_EQ(answers[0].ids, answers[1].ids);
  EXPECT_EQ(loaded(model_.path(), options(), asked), 0);  // without the draft model
  EXPECT_EQ(loaded(model_.path(), options(), asked), 256);
  EXPECT_EQ(loaded(model_.path(), drafting, asked, model_.path()), 256);
}

TEST_F(DiskCache, another_page_type_of_the_draft_model_alone_misses) {
  const TestModel target(DType::kF32);  // F32 pages, asked for or not
  EngineOptions drafting = options();
  drafting.max_drafts = 6;
  EngineOptions f32 = drafting;
  f32.kv_type = KvType::kF32;
  for (const int64_t n : {0, 256}) {
    EXPECT_EQ(loaded(target.path(), drafting, request(300), model_.path()), n);
    EXPECT_EQ(loaded(target.path(), f32, request(300), model_.path()), n);
  }
}

TEST_F(DiskCache, what_is_written_after_the_last_step_is_counted) {
  TestEngine rig(model_.path(), options());
  const Gauge records = rig.metrics.gauge("millrace_kv_disk_records", "KV blocks on disk");
  for (const int n_blocks : {4, 8, 12}) {
    rig.ask(request(300, std::to_string(n_blocks)));
    while (records.value() < n_blocks) {  // nobody asks for anything more
      std::this_thread::yield();
    }
    EXPECT_EQ(records.value(), n_blocks);
  }
}

TEST_F(DiskCache, blocks_loaded_for_a_client_that_left_become_free) {
  EXPECT_EQ(loaded(model_.path(), options(), request(300)), 0);
  for (int i = 0; i < 10; ++i) {
    TestEngine rig(model_.path(), options());
    const Gauge loading =
        rig.metrics.gauge("millrace_kv_blocks", "KV blocks by state", {{"state", "loading"}});
    auto stream = rig.submit(request(300));
    while (loading.value() == 0 && rig.engine->stats().loaded_tokens == 0) {
      std::this_thread::yield();
    }
    stream.reset();
    const auto is_quiet = [&] {
      const EngineStats stats = rig.engine->stats();
      return stats.n_running + stats.n_waiting == 0 && stats.blocks_free == stats.blocks_total;
    };
    while (loading.value() > 0 || !is_quiet()) {
      std::this_thread::yield();
    }
  }
}

TEST_F(DiskCache, another_instruction_set_misses) {
  if (kernels::detect_isa() == kernels::Isa::kScalar) {
    GTEST_SKIP() << "there is only one here";
  }
  EXPECT_EQ(loaded(model_.path(), options(), request(300)), 0);
  EngineOptions scalar = options();
  scalar.isa = kernels::Isa::kScalar;
  EXPECT_EQ(loaded(model_.path(), scalar, request(300)), 0);
}

// A flipped bit, cut files, empty ones: the answer is that of a cold engine.
TEST_F(DiskCache, damage_costs_time_and_changes_no_answer) {
  const std::vector<std::function<void(std::string&)>> damages = {
      [](std::string& bytes) {
        const size_t middle = bytes.size() / 2 + 1'000;  // in the third block's pages
        bytes[middle] = static_cast<char>(bytes[middle] ^ 16);
      },
      [](std::string& bytes) { bytes[2] = 0; },
      [](std::string& bytes) { bytes.resize(bytes.size() - 1); },
      [](std::string& bytes) { bytes.resize(bytes.size() / 2); },
      [](std::string& bytes) { bytes.clear(); },
  };
  Answer expected;
  {
    TestEngine rig(model_.path());
    expected = rig.ask(request(300));
  }
  for (size_t i = 0; i < damages.size(); ++i) {
    EXPECT_EQ(loaded(model_.path(), options(), request(300)), 0);
    change_segments(damages[i]);
    {
      TestEngine rig(model_.path(), options());
      const Answer answer = rig.ask(request(300));
      EXPECT_EQ(answer.ids, expected.ids) << "damage " << i;
      EXPECT_LT(rig.engine->stats().loaded_tokens, 256) << "damage " << i;
    }
    EXPECT_EQ(loaded(model_.path(), options(), request(300)), 256) << "damage " << i;  // healed
    fs::remove_all(folder_);
  }
}

TEST_F(DiskCache, folder_in_use_and_cache_switched_off_are_refused_at_start) {
  const TestEngine rig(model_.path(), options());
  auto files = open_model_files(model_.path());
  Metrics metrics;
  EngineOptions second = options();
  second.kv_memory = 16 << 20;
  const auto busy = Engine::create(*std::move(files), second, metrics);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, ErrorCode::kUnavailable);
  files = open_model_files(model_.path());
  second.has_prefix_cache = false;
  const auto without_cache = Engine::create(*std::move(files), second, metrics);
  ASSERT_FALSE(without_cache);
  EXPECT_EQ(without_cache.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(DiskCache, engine_without_it_has_no_part_of_it) {
  TestEngine rig(model_.path());
  rig.ask(request(300));
  EXPECT_EQ(rig.metrics.expose().find("kv_disk"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace millrace

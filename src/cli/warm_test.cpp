#include "cli/warm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "formats/synth.h"
#include "kv/block_pool.h"
#include "server/service.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class WarmTest : public testing::Test {
 protected:
  WarmTest()
      : folder_(fs::temp_directory_path() / fmt::format("millrace_warm_test_{}", getpid())),
        disk_(folder_ / "kv") {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    const std::string path = (folder_ / "model.gguf").string();
    EXPECT_TRUE(write_random_model(path, {}, 7));
    EngineOptions options;
    options.n_threads = 2;
    options.kv_memory = 16 << 20;
    options.kv_disk = disk_.string();
    auto files = open_model_files(path);
    EXPECT_TRUE(files) << files.error().message;
    auto engine = Engine::create(*std::move(files), options, metrics_);
    EXPECT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
  }
  ~WarmTest() override {
    engine_.reset();
    fs::remove_all(folder_);
  }

  double writes(const char* outcome) {
    return metrics_
        .counter("millrace_kv_disk_writes_total",
                 "KV blocks offered to the disk, by what became of them",
                 {{"outcome", outcome}})
        .value();
  }
  static std::string prompt(int n) {
    std::string text;
    while (text.size() < 200) {
      text += fmt::format("{} ", n++);
    }
    return text;
  }

  const fs::path folder_;
  const fs::path disk_;
  Metrics metrics_;
  std::unique_ptr<Engine> engine_;
  const Service service_{{.model_names = {"m"}, .keys = {}, .allowed_origins = {}}, metrics_};
};

TEST_F(WarmTest, every_whole_block_is_on_disk_when_it_returns) {
  int64_t n_blocks = 0;
  for (int n = 0; n < 40; ++n) {
    const std::vector<PromptLine> prompts = {{1, prompt(100 * n)}};
    const auto tokens = engine_->tokenizer().encode_within(1'000, prompts[0].text, true, true);
    ASSERT_TRUE(tokens);
    n_blocks += std::ssize(*tokens) / kBlockTokens;
    ASSERT_TRUE(warm_up(service_, *engine_, prompts, "prompts.txt"));
    ASSERT_EQ(writes("written"), static_cast<double>(n_blocks));
  }
  EXPECT_GT(n_blocks, 40);
}

TEST_F(WarmTest, a_disk_that_fails_is_told_of_and_not_asked_again) {
  fs::remove_all(disk_);
  testing::internal::CaptureStderr();
  const std::vector<PromptLine> prompts = {{1, prompt(1)}, {2, prompt(1'000)}};
  const auto warmed = warm_up(service_, *engine_, prompts, "prompts.txt");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(warmed);
  const EngineStats stats = engine_->stats();
  EXPECT_GT(stats.failed_blocks, 1);
  EXPECT_EQ(writes("failed"), static_cast<double>(stats.failed_blocks));
  EXPECT_NE(log.find(fmt::format("{} blocks could not be written", stats.failed_blocks)),
            std::string::npos)
      << log;
  EXPECT_LE(stats.generated_tokens, 2);  // once for each prompt
}

}  // namespace
}  // namespace millrace

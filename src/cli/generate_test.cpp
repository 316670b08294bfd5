#include "cli/generate.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "formats/synth.h"

namespace millrace {
namespace {

class GenerateTest : public testing::Test {
 protected:
  GenerateTest() {
    EXPECT_TRUE(write_random_model(path_, {}, 7));
    auto files = open_model_files(path_);
    EngineOptions options;
    options.n_threads = 1;
    options.kv_memory = 16 << 20;
    engine_ = *Engine::create(*std::move(files), options, metrics_);
  }
  ~GenerateTest() override { std::remove(path_.c_str()); }

  FinishReason reason_of_long_answer() {
    Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 1'000;
    request.ignore_eos = true;
    const auto answer = generate(*engine_, std::move(request), &interruption_);
    EXPECT_TRUE(answer);
    return answer ? answer->finish.reason : FinishReason::kError;
  }
  bool is_readable() const {
    pollfd waiting{interruption_.descriptor(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) == 1;
  }

  const std::string path_ =
      testing::TempDir() + "millrace_generate_" + std::to_string(::getpid()) + ".gguf";
  Metrics metrics_;
  std::unique_ptr<Engine> engine_;
  Interruption interruption_;
};

TEST_F(GenerateTest, an_interruption_before_the_answer_cancels_it_until_it_is_taken) {
  interruption_.raise();
  EXPECT_EQ(reason_of_long_answer(), FinishReason::kCancelled);
  EXPECT_EQ(reason_of_long_answer(), FinishReason::kCancelled);
  EXPECT_TRUE(is_readable());
  EXPECT_TRUE(interruption_.take());
  EXPECT_FALSE(interruption_.take());
  EXPECT_FALSE(is_readable());
  EXPECT_EQ(reason_of_long_answer(), FinishReason::kLength);
}

}  // namespace
}  // namespace millrace

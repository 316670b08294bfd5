#pragma once
// A small random model on disk and short ways to ask an engine, for tests.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "engine/engine.h"
#include "formats/synth.h"

namespace millrace {

// A model file that is removed with it. Weights are wide enough for logits with a clear shape.
class TestModel {
 public:
  explicit TestModel(DType dtype = DType::kF32, float norm_std = 0)
      : TestModel([&](ModelShape& shape) {
          shape.dtype = dtype;
          shape.norm_std = norm_std;
        }) {}
  explicit TestModel(const std::function<void(ModelShape&)>& change) {
    static int counter = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("millrace_engine_test_" + std::to_string(getpid()) + "_" + std::to_string(counter++) +
             ".gguf");
    ModelShape shape;
    shape.n_embd = 256;  // whole super-blocks
    shape.n_ff = 256;
    shape.matrix_std = 0.2F;
    change(shape);
    const auto written = write_random_model(path_.string(), shape, 7);
    EXPECT_TRUE(written) << written.error().message;
  }
  ~TestModel() { std::filesystem::remove(path_); }
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct Answer {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  std::vector<std::vector<TopLogprob>> top;
  std::string text;  // with the tail
  PromptEvent prompt;
  FinishEvent finish;
};

// All choices of a request, read to the end.
inline std::map<int, Answer> read_all(TokenStream& stream) {
  std::map<int, Answer> answers;
  StreamEvent event;
  while (stream.wait_next(event)) {
    Answer& answer = answers[event.choice];
    if (auto* token = std::get_if<TokenEvent>(&event.body)) {
      answer.ids.push_back(token->token);
      answer.logprobs.push_back(token->logprob);
      answer.top.push_back(token->top);
      answer.text += token->text;
    } else if (auto* prompt = std::get_if<PromptEvent>(&event.body)) {
      EXPECT_TRUE(answer.ids.empty());
      answer.prompt = std::move(*prompt);
    } else {
      answer.finish = std::move(std::get<FinishEvent>(event.body));
      answer.text += answer.finish.text;
    }
  }
  return answers;
}

struct TestEngine {
  explicit TestEngine(const std::string& path,
                      EngineOptions options = {},
                      const std::string& draft_path = {}) {
    auto files = open_model_files(path);
    if (!files) throw std::runtime_error(files.error().message);
    std::optional<ModelFiles> draft;
    if (!draft_path.empty()) {
      draft = *open_model_files(draft_path);
    }
    if (options.n_threads == 0) {
      options.n_threads = 2;
    }
    if (!options.kv_memory) {
      options.kv_memory = 16 << 20;
    }
    auto created = Engine::create(std::move(*files), options, metrics, std::move(draft));
    if (!created) throw std::runtime_error(created.error().message);
    engine = std::move(*created);
  }

  std::shared_ptr<TokenStream> submit(Request request) {
    auto stream = engine->submit(std::move(request));
    if (!stream) throw std::runtime_error(stream.error().message);
    return *stream;
  }
  std::map<int, Answer> ask_all(Request request) { return read_all(*submit(std::move(request))); }
  Answer ask(Request request) { return ask_all(std::move(request)).at(0); }

  double counter(const std::string& name, const std::string& help, const MetricLabels& labels) {
    return metrics.counter(name, help, labels).value();
  }

  Metrics metrics;
  std::unique_ptr<Engine> engine;
};

// n tokens that depend on the salt.
inline std::vector<TokenId> some_prompt(int n, int salt = 0) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) {
    tokens.push_back((i * 37 + salt * 101 + i * i * (salt + 3)) % 256);
  }
  return tokens;
}

}  // namespace millrace

// Hugging Face folders from the MODEL argument to the answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/kv_identity.h"
#include "engine/test_engine.h"
#include "formats/gguf.h"
#include "formats/hugging_face_testing.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::config_of;
using testing_support::folder_tensors;
using testing_support::FolderTensor;
using testing_support::json_of;
using testing_support::safetensors_bytes;
using testing_support::Settings;
using testing_support::TempFolder;
using testing_support::write_text;

const char* const kTokenizer = MILLRACE_SOURCE_DIR "/tests/tokenizer/data/smollm_style/";

class FolderModel : public testing::Test {
 protected:
  FolderModel()
      : gguf_([](ModelShape& shape) {
          shape.n_vocab = 640;
          shape.n_tokens = 580;  // as many as the tokenizer of the folder
        }),
        checkpoint_(*open_gguf(gguf_.path())),
        config_(config_of(checkpoint_, "LlamaForCausalLM", "llama")) {
    write_text(folder_, "config.json", json_of(config_));
    folder_.write("model.safetensors", safetensors_bytes(folder_tensors(checkpoint_)));
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      fs::copy_file(kTokenizer + std::string(file), folder_.path(file));
    }
  }

  ModelFiles open() {
    auto files = open_model_files(folder_.path(""));
    EXPECT_TRUE(files) << files.error().message;
    return files ? std::move(*files) : ModelFiles{};
  }
  std::string error() {
    const auto files = open_model_files(folder_.path(""));
    return files ? "no error" : files.error().message;
  }

  const TestModel gguf_;
  const Checkpoint checkpoint_;
  Settings config_;
  TempFolder folder_;
};

TEST_F(FolderModel, answers_with_the_tokens_of_the_gguf_file) {
  Request request;
  request.prompt = some_prompt(100);
  request.max_tokens = 20;
  request.sampling.temperature = 0.8F;
  request.seed = 4;
  request.n_logprobs = 2;
  request.ignore_eos = true;
  TestEngine gguf(gguf_.path());
  TestEngine folder(folder_.path(""));
  TestEngine config(folder_.path("config.json"));
  const Answer want = gguf.ask(request);
  ASSERT_EQ(want.ids.size(), 20u);
  for (TestEngine* engine : {&folder, &config}) {
    const Answer got = engine->ask(request);
    EXPECT_EQ(got.ids, want.ids);
    EXPECT_EQ(got.logprobs, want.logprobs);
  }
}

TEST_F(FolderModel, has_the_name_of_its_folder) {
  const std::string name = fs::path(folder_.path("x")).parent_path().filename().string();
  EXPECT_EQ(open().name, name);
  EXPECT_EQ(model_path_name(folder_.path("")), name);
  EXPECT_EQ(model_path_name("/models/Qwen3-0.6B.gguf"), "Qwen3-0.6B");
  EXPECT_EQ(model_path_name("demo"), "demo");
  // A full stop in the name of a folder begins no ending.
  fs::create_directory(folder_.path("Tiny-0.6B"));
  EXPECT_EQ(model_path_name(folder_.path("Tiny-0.6B")), "Tiny-0.6B");
}

TEST_F(FolderModel, tokenizer_and_ends_come_from_the_files_beside) {
  const ModelFiles files = open();
  EXPECT_EQ(files.tokenizer->vocab_size(), 580);
  EXPECT_EQ(files.tokenizer->eos(), 577);  // "<|im_end|>" of tokenizer_config.json
  // Both are ends by their spelling too.
  EXPECT_THAT(files.tokenizer->end_of_generation(), ElementsAre(577, 578));
  config_["eos_token_id"] = "[5, 577]";
  write_text(folder_, "config.json", json_of(config_));
  EXPECT_THAT(open().tokenizer->end_of_generation(), ElementsAre(5, 577, 578));
  write_text(folder_, "generation_config.json", R"({"eos_token_id": 6, "temperature": 0.1})");
  EXPECT_THAT(open().tokenizer->end_of_generation(), ElementsAre(6, 577, 578));
}

TEST_F(FolderModel, the_chat_template_comes_from_its_file_or_the_tokenizer_s_settings) {
  EXPECT_EQ(open().chat_template, nullptr);
  EXPECT_EQ(open().chat_template_error, "");
  const std::string loop = "{% for m in messages %}{{ m.content }}{% endfor %}";
  write_text(folder_, "tokenizer_config.json", R"({"chat_template": "A)" + loop + "\"}");
  ASSERT_NE(open().chat_template, nullptr);
  EXPECT_EQ(open().chat_template->source(), "A" + loop);
  write_text(folder_, "chat_template.jinja", "B" + loop);
  EXPECT_EQ(open().chat_template->source(), "B" + loop);
  // One that cannot be run takes the chat away, not the model.
  write_text(folder_, "chat_template.jinja", "{% include 'x' %}");
  EXPECT_EQ(open().chat_template, nullptr);
  EXPECT_THAT(open().chat_template_error, HasSubstr("include"));
}

TEST_F(FolderModel, what_is_missing_or_damaged_is_named) {
  write_text(folder_, "tokenizer.json", "{");
  EXPECT_THAT(error(), HasSubstr(folder_.path("") + ": [tokenizer.json]"));
  fs::remove(folder_.path("tokenizer.json"));
  write_text(folder_, "tokenizer.model", "sentencepiece");
  EXPECT_THAT(error(), HasSubstr("has no tokenizer.json"));
  EXPECT_THAT(error(), HasSubstr("save_pretrained"));
  const auto empty = open_model_files(fs::temp_directory_path().string());
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(empty.error().message, HasSubstr("is a folder without config.json"));
}

TEST_F(FolderModel, a_tokenizer_with_more_tokens_than_the_model_is_refused) {
  const TestModel small([](ModelShape& shape) { shape.n_vocab = 320; });
  const Checkpoint gguf = *open_gguf(small.path());
  write_text(folder_, "config.json", json_of(config_of(gguf, "LlamaForCausalLM", "llama")));
  folder_.write("model.safetensors", safetensors_bytes(folder_tensors(gguf)));
  EXPECT_THAT(error(),
              HasSubstr("tokenizer.json has 580 tokens, vocab_size of config.json is 320"));
}

// The bytes of q and k alone do not tell in which order they are to be read.
TEST_F(FolderModel, kv_on_disk_is_that_of_the_folder_and_its_settings) {
  WorkerPool workers(2);
  const auto identity = [&](const ModelFiles& files) {
    return *kv_identity(files, nullptr, {}, kernels::Isa::kScalar, workers);
  };
  const BlockKey key = identity(open());
  EXPECT_EQ(identity(open()), key);
  EXPECT_NE(identity(*open_model_files(gguf_.path())), key);
  config_["rope_theta"] = "20000.0";
  write_text(folder_, "config.json", json_of(config_));
  EXPECT_NE(identity(open()), key);
}

TEST_F(FolderModel, kv_on_disk_is_that_of_scales_zero_points_and_how_they_are_read) {
  const std::string up = "model.layers.0.mlp.up_proj.";
  std::vector<FolderTensor> others = folder_tensors(checkpoint_);
  const auto matrix = std::ranges::find(others, up + "weight", &FolderTensor::name);
  const int64_t n_out = matrix->shape[0], n_in = matrix->shape[1], n_groups = n_in / 128;
  others.erase(matrix);
  const auto zeros = [](int64_t n_bytes) {
    return std::vector<std::byte>(static_cast<size_t>(n_bytes));
  };
  WorkerPool workers(2);
  std::vector<BlockKey> keys;
  const auto add_key = [&](const std::string& settings, const std::vector<FolderTensor>& parts) {
    std::vector<FolderTensor> tensors = others;
    tensors.insert(tensors.end(), parts.begin(), parts.end());
    config_["quantization_config"] = settings;
    write_text(folder_, "config.json", json_of(config_));
    folder_.write("model.safetensors", safetensors_bytes(tensors));
    keys.push_back(*kv_identity(open(), nullptr, {}, kernels::Isa::kScalar, workers));
  };

  const std::string fp8 = R"({"quant_method": "fp8"})";
  std::vector<FolderTensor> parts = {{up + "weight", "F8_E4M3", {n_out, n_in}, zeros(n_out * n_in)},
                                     {up + "weight_scale", "F32", {n_out, 1}, zeros(n_out * 4)}};
  add_key(fp8, parts);
  parts[1].bytes[2] = std::byte{1};
  add_key(fp8, parts);

  const std::string gptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 128)";
  parts = {{up + "qweight", "I32", {n_in / 8, n_out}, zeros(n_in * n_out / 2)},
           {up + "scales", "F16", {n_groups, n_out}, zeros(n_groups * n_out * 2)},
           {up + "qzeros", "I32", {n_groups, n_out / 8}, zeros(n_groups * n_out / 2)}};
  add_key(gptq + "}", parts);
  add_key(gptq + R"(, "checkpoint_format": "gptq_v2"})", parts);
  for (const size_t part : {1u, 2u}) {
    parts[part].bytes[0] = std::byte{1};
    add_key(gptq + "}", parts);
  }
  for (const BlockKey& key : keys) EXPECT_EQ(std::ranges::count(keys, key), 1);
}

}  // namespace
}  // namespace millrace

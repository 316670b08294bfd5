// A Hugging Face folder and the GGUF file made from it are the same model, bit for bit.

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "base/worker_pool.h"
#include "formats/gguf.h"
#include "formats/hugging_face.h"
#include "formats/hugging_face_testing.h"
#include "model/golden_testing.h"
#include "model/memory_need.h"
#include "model/model.h"

namespace millrace {
namespace {

using testing_support::config_of;
using testing_support::folder_tensors;
using testing_support::json_of;
using testing_support::safetensors_bytes;
using testing_support::Settings;
using testing_support::TempFolder;
using testing_support::write_text;

struct Case {
  const char* golden;
  const char* architecture;
  const char* model_type;
  Settings more = {};       // what GGUF has in another form
  bool is_decoded = false;  // as F32, which folders have
};

const Case kCases[] = {
    {"llama2", "LlamaForCausalLM", "llama"},
    {"llama2_bf16", "LlamaForCausalLM", "llama"},
    {"llama3_2",
     "LlamaForCausalLM",
     "llama",
     {{"rope_scaling",
       R"({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,)"
       R"( "original_max_position_embeddings": 32})"}}},
    {"llama_linear", "LlamaForCausalLM", "llama"},
    {"llama_yarn", "LlamaForCausalLM", "llama"},
    {"llama_bias", "LlamaForCausalLM", "llama"},
    {"mistral_q8_0", "MistralForCausalLM", "mistral", {}, true},
    {"smollm2_f16", "LlamaForCausalLM", "llama"},
    {"qwen2", "Qwen2ForCausalLM", "qwen2"},
    {"qwen3", "Qwen3ForCausalLM", "qwen3"},
};

void decode_to_f32(test::GoldenModel& model) {
  for (test::GoldenTensor& tensor : model.tensors) {
    int64_t n = 1;
    for (const int64_t length : tensor.shape) n *= length;
    std::vector<float> values(static_cast<size_t>(n));
    dtype_info(tensor.dtype).decode(tensor.bytes.data(), values.data(), n);
    const auto bytes = std::as_bytes(std::span(values));
    tensor.bytes.assign(bytes.begin(), bytes.end());
    tensor.dtype = DType::kF32;
  }
}

// Of every token.
std::vector<float> logits_of(const Checkpoint& checkpoint,
                             const std::vector<TokenId>& tokens,
                             kernels::Isa isa) {
  WorkerPool pool(2);
  const auto model = Model::load(checkpoint, {.isa = isa, .pool = &pool});
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return {};
  const ModelSpec& spec = (*model)->spec();
  const PageFormat format = (*model)->page_format();
  EXPECT_EQ((*model)->weight_bytes(), memory_need(checkpoint, spec, format, 512, isa).weight_bytes);
  std::vector<BlockId> blocks(tokens.size() / PageFormat::kTokens + 1);
  std::iota(blocks.begin(), blocks.end(), 0);
  auto kv = KvMemory::create(format, spec.n_layers, spec.n_kv_heads, int64_t(blocks.size()));
  EXPECT_TRUE(kv);
  std::vector<float> logits(tokens.size() * size_t(spec.n_vocab));
  const Span span{tokens, 0, blocks, int(tokens.size())};
  (*model)->forward({{&span, 1}}, *kv, logits);
  return logits;
}

class HuggingFaceGolden : public testing::TestWithParam<Case> {
 protected:
  HuggingFaceGolden() : golden_(test::read_golden(GetParam().golden)) {
    if (GetParam().is_decoded) decode_to_f32(golden_);
    bytes_ = golden_.gguf();
    gguf_ = *parse_gguf(bytes_.bytes(), GetParam().golden);
    Settings config = config_of(gguf_, GetParam().architecture, GetParam().model_type);
    for (const auto& [key, value] : GetParam().more) config[key] = value;
    write_text(folder_, "config.json", json_of(config));
    folder_.write("model.safetensors", safetensors_bytes(folder_tensors(gguf_), 1));
  }

  test::GoldenModel golden_;
  Buffer bytes_;
  Checkpoint gguf_;
  TempFolder folder_;
};

TEST_P(HuggingFaceGolden, logits_equal_those_of_the_gguf_file_bit_for_bit) {
  const auto folder = open_hugging_face(folder_.path(""));
  ASSERT_TRUE(folder) << folder.error().message;
  for (const kernels::Isa isa : {kernels::Isa::kScalar, kernels::detect_isa()}) {
    const auto want = logits_of(gguf_, golden_.tokens, isa);
    const auto got = logits_of(*folder, golden_.tokens, isa);
    ASSERT_EQ(got.size(), want.size());
    ASSERT_FALSE(got.empty());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
        << kernels::isa_name(isa);
  }
}

TEST_P(HuggingFaceGolden, the_shape_is_that_of_the_gguf_file) {
  const auto folder = open_hugging_face(folder_.path(""));
  ASSERT_TRUE(folder) << folder.error().message;
  const auto got = read_model_spec(*folder), want = read_model_spec(gguf_);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->architecture, want->architecture);
  EXPECT_EQ(got->name, "");
  EXPECT_EQ(got->n_layers, want->n_layers);
  EXPECT_EQ(got->n_embd, want->n_embd);
  EXPECT_EQ(got->n_heads, want->n_heads);
  EXPECT_EQ(got->n_kv_heads, want->n_kv_heads);
  EXPECT_EQ(got->head_dim, want->head_dim);
  EXPECT_EQ(got->n_ff, want->n_ff);
  EXPECT_EQ(got->n_vocab, want->n_vocab);
  EXPECT_EQ(got->context_length, want->context_length);
  EXPECT_EQ(got->rms_eps, want->rms_eps);
  EXPECT_EQ(got->has_qk_norm, want->has_qk_norm);
  EXPECT_EQ(got->has_qkv_bias, want->has_qkv_bias);
  EXPECT_EQ(got->has_output_bias, want->has_output_bias);
  EXPECT_EQ(got->is_tied, want->is_tied);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         HuggingFaceGolden,
                         testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.golden); });

class HuggingFaceSpec : public testing::Test {
 protected:
  HuggingFaceSpec() : bytes_(test::read_golden("qwen3").gguf()) {
    gguf_ = *parse_gguf(bytes_.bytes(), "qwen3");
    tensors_ = folder_tensors(gguf_);
    config_ = config_of(gguf_, "Qwen3ForCausalLM", "qwen3");
  }

  Result<ModelSpec> spec() {
    write_text(folder_, "config.json", json_of(config_));
    folder_.write("model.safetensors", safetensors_bytes(tensors_));
    const auto folder = open_hugging_face(folder_.path(""));
    if (!folder) return propagate(folder);
    return read_model_spec(*folder);
  }
  std::string error() {
    const auto result = spec();
    return result ? "no error" : result.error().message;
  }

  Buffer bytes_;
  Checkpoint gguf_;
  std::vector<testing_support::FolderTensor> tensors_;
  Settings config_;
  TempFolder folder_;
};

TEST_F(HuggingFaceSpec, a_missing_or_misshaped_tensor_has_the_name_that_it_has_in_the_file) {
  ASSERT_TRUE(spec()) << error();
  config_["intermediate_size"] = "97";
  EXPECT_THAT(error(),
              testing::HasSubstr("tensor model.layers.0.mlp.gate_proj.weight is [64, 96]"));
  config_["intermediate_size"] = "96";
  config_["num_hidden_layers"] = "3";
  EXPECT_THAT(error(), testing::HasSubstr("no tensor model.layers.2.input_layernorm.weight"));
  config_["num_hidden_layers"] = "1";
  EXPECT_THAT(error(),
              testing::HasSubstr("tensor model.layers.1.input_layernorm.weight [64] is not"));
}

TEST_F(HuggingFaceSpec, a_window_is_refused_as_in_gguf_files) {
  config_["sliding_window"] = "100";
  EXPECT_TRUE(spec()) << error();
  config_["use_sliding_window"] = "true";
  EXPECT_THAT(error(), testing::HasSubstr("a sliding window shorter than the context"));
  config_["sliding_window"] = "512";
  EXPECT_TRUE(spec()) << error();
}

}  // namespace
}  // namespace millrace

#include "formats/hugging_face_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "formats/gguf.h"
#include "formats/hugging_face_testing.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::FloatEq;
using testing::HasSubstr;
using testing_support::json_of;
using testing_support::Settings;

Settings llama() {
  return {{"architectures", R"(["LlamaForCausalLM"])"},
          {"model_type", "\"llama\""},
          {"hidden_size", "64"},
          {"intermediate_size", "96"},
          {"max_position_embeddings", "512"},
          {"num_attention_heads", "4"},
          {"num_hidden_layers", "2"},
          {"rms_norm_eps", "1e-05"},
          {"vocab_size", "100"}};
}

Settings with(Settings fields, const Settings& changes) {
  for (const auto& [key, value] : changes) fields[key] = value;
  return fields;
}

Settings family(const char* architecture, const char* model_type) {
  return with(llama(),
              {{"architectures", fmt::format("[\"{}\"]", architecture)},
               {"model_type", fmt::format("\"{}\"", model_type)}});
}

Settings rope(const std::string& scaling) {
  return with(llama(), {{"rope_scaling", scaling}});
}

// The settings and their metadata, which must be there.
struct Read {
  HuggingFaceConfig config;
  Checkpoint gguf;

  template <class T>
  T get(const std::string& key) const {
    const auto value = gguf.metadata().get<T>(key);
    EXPECT_TRUE(value) << value.error().message;
    return value.value_or(T{});
  }
  bool has(const std::string& key) const { return gguf.metadata().find(key) != nullptr; }
};
Read read(const Settings& fields) {
  Read result;
  auto config = read_hugging_face_config(json_of(fields), "config.json");
  EXPECT_TRUE(config) << config.error().message;
  if (!config) return result;
  result.config = std::move(*config);
  auto gguf = parse_gguf(result.config.metadata, "config.json");
  EXPECT_TRUE(gguf) << gguf.error().message;
  if (gguf) result.gguf = std::move(*gguf);
  return result;
}

void expect_error(const std::string& json,
                  ErrorCode code,
                  const testing::Matcher<const std::string&>& message) {
  const auto config = read_hugging_face_config(json, "folder/config.json");
  ASSERT_FALSE(config) << json;
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_THAT(config.error().message, AllOf(HasSubstr("folder/config.json"), message)) << json;
}
void expect_error(const Settings& fields, ErrorCode code, const std::string& words) {
  expect_error(json_of(fields), code, HasSubstr(words));
}

TEST(HuggingFaceConfig, becomes_the_keys_of_gguf) {
  const Read model = read(with(llama(),
                               {{"num_key_value_heads", "2"},
                                {"head_dim", "24"},
                                {"rope_theta", "500000.0"},
                                {"tie_word_embeddings", "true"},
                                {"attention_bias", "false"},
                                {"torch_dtype", "\"bfloat16\""}}));
  EXPECT_EQ(model.get<std::string_view>("general.architecture"), "llama");
  EXPECT_EQ(model.get<int64_t>("llama.block_count"), 2);
  EXPECT_EQ(model.get<int64_t>("llama.context_length"), 512);
  EXPECT_EQ(model.get<int64_t>("llama.embedding_length"), 64);
  EXPECT_EQ(model.get<int64_t>("llama.feed_forward_length"), 96);
  EXPECT_EQ(model.get<int64_t>("llama.attention.head_count"), 4);
  EXPECT_EQ(model.get<int64_t>("llama.attention.head_count_kv"), 2);
  EXPECT_EQ(model.get<int64_t>("llama.attention.key_length"), 24);
  EXPECT_EQ(model.get<int64_t>("llama.attention.value_length"), 24);
  EXPECT_EQ(model.get<float>("llama.attention.layer_norm_rms_epsilon"), 1e-5f);
  EXPECT_EQ(model.get<float>("llama.rope.freq_base"), 500000.0f);
  EXPECT_FALSE(model.has("llama.rope.scaling.type"));
  EXPECT_EQ(model.config.split_head_rows, 24);
  EXPECT_EQ(model.config.vocab_size, 100);
  EXPECT_EQ(model.config.is_tied, true);
  EXPECT_EQ(model.config.has_attention_bias, false);
}

TEST(HuggingFaceConfig, absent_keys_mean_what_they_mean_to_transformers) {
  const Read model = read(llama());
  EXPECT_EQ(model.get<int64_t>("llama.attention.head_count_kv"), 4);
  EXPECT_FALSE(model.has("llama.attention.key_length"));
  EXPECT_EQ(model.get<float>("llama.rope.freq_base"), 10000.0f);
  EXPECT_EQ(model.config.split_head_rows, 16);
  EXPECT_EQ(model.config.is_tied, std::nullopt);
  EXPECT_EQ(model.config.has_attention_bias, std::nullopt);
  const Read null = read(with(
      llama(), {{"head_dim", "null"}, {"num_key_value_heads", "null"}, {"rope_scaling", "null"}}));
  EXPECT_EQ(null.config.split_head_rows, 16);
  EXPECT_EQ(read(family("Qwen3ForCausalLM", "qwen3")).get<int64_t>("qwen3.attention.key_length"),
            128);
}

TEST(HuggingFaceConfig, every_family_has_its_name_in_gguf) {
  for (const auto& [architecture, type, gguf, split] :
       {std::tuple("LlamaForCausalLM", "llama", "llama", 16),
        std::tuple("MistralForCausalLM", "mistral", "llama", 16),
        std::tuple("Qwen2ForCausalLM", "qwen2", "qwen2", 0),
        std::tuple("Qwen3ForCausalLM", "qwen3", "qwen3", 0)}) {
    for (const char* absent : {"architectures", "model_type"}) {
      Settings fields = family(architecture, type);
      fields.erase(absent);  // either of them is enough
      const Read model = read(fields);
      EXPECT_EQ(model.get<std::string_view>("general.architecture"), gguf) << absent;
      EXPECT_EQ(model.config.split_head_rows, split) << type;
    }
  }
}

TEST(HuggingFaceConfig, what_is_not_known_is_refused_by_name) {
  using enum ErrorCode;
  expect_error(json_of(family("GptFrogForCausalLM", "llama")),
               kUnsupported,
               AllOf(HasSubstr("GptFrogForCausalLM"),
                     HasSubstr("LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
                               "Qwen3ForCausalLM")));
  expect_error(with(family("", "gpt_frog"), {{"architectures", "null"}}), kUnsupported, "gpt_frog");
  expect_error(family("LlamaForSequenceClassification", "llama"),
               kUnsupported,
               "LlamaForSequenceClassification");
  expect_error(family("LlamaForCausalLM", "qwen2"), kUnsupported, "model_type is 'qwen2'");
  const std::pair<const char*, const char*> features[] = {
      {"hidden_act", "\"gelu\""},
      {"mlp_bias", "true"},
      {"partial_rotary_factor", "0.5"},
      {"layer_types", R"(["full_attention", "sliding_attention"])"},
      {"quantization_config", R"({"quant_method": "awq", "bits": 4})"},
      {"compression_config", R"({"format": "float-quantized"})"},
      {"rope_scaling", R"({"type": "dynamic", "factor": 2.0})"},
      {"rope_scaling", R"({"rope_type": "longrope", "factor": 2.0})"},
      {"rope_scaling", R"({"rope_type": "yarn", "factor": 2.0, "truncate": false})"},
      {"rope_parameters", R"({"full_attention": {"rope_theta": 1.0}})"},
      {"rope_parameters", R"({"rope_type": "default", "partial_rotary_factor": 0.25})"},
  };
  for (const auto& [key, value] : features) {
    expect_error(with(llama(), {{key, value}}), kUnsupported, "support");
  }
  expect_error(with(llama(), {{"quantization_config", R"({"quant_method": "bitsandbytes"})"}}),
               kUnsupported,
               "quantization_config.quant_method is bitsandbytes");
  expect_error(rope(R"({"type": "dynamic", "factor": 2.0})"), kUnsupported, "dynamic");
}

TEST(HuggingFaceConfig, neutral_values_of_what_is_refused_are_read) {
  const Read model = read(with(llama(),
                               {{"hidden_act", "\"silu\""},
                                {"mlp_bias", "false"},
                                {"partial_rotary_factor", "1.0"},
                                {"layer_types", R"(["full_attention", "full_attention"])"},
                                {"quantization_config", "null"},
                                {"rope_scaling", R"({"rope_type": "default"})"},
                                {"anything_else", R"([{"at": "all"}])"}}));
  EXPECT_FALSE(model.has("llama.rope.scaling.type"));
}

TEST(HuggingFaceConfig, missing_and_wrong_values_are_named) {
  for (const char* key : {"hidden_size",
                          "intermediate_size",
                          "max_position_embeddings",
                          "num_attention_heads",
                          "num_hidden_layers",
                          "rms_norm_eps",
                          "vocab_size"}) {
    Settings fields = llama();
    fields.erase(key);
    expect_error(fields, ErrorCode::kCorrupt, fmt::format("{} is missing", key));
    for (const char* value : {"\"64\"", "0", "-1", "[1]"}) {
      expect_error(with(llama(), {{key, value}}), ErrorCode::kCorrupt, fmt::format("{} is ", key));
    }
  }
  expect_error(with(llama(), {{"hidden_size", "2147483648"}}),
               ErrorCode::kCorrupt,
               "hidden_size is 2147483648, expected a whole number from 1 to 2147483647");
  expect_error(
      with(llama(), {{"hidden_size", "64.5"}}), ErrorCode::kCorrupt, "hidden_size is 64.5");
  expect_error(with(llama(), {{"rms_norm_eps", "1e39"}}), ErrorCode::kCorrupt, "rms_norm_eps is");
  expect_error(with(llama(), {{"rms_norm_eps", "1e-46"}}), ErrorCode::kCorrupt, "rms_norm_eps is");
  expect_error(with(llama(), {{"tie_word_embeddings", "1"}}),
               ErrorCode::kCorrupt,
               "tie_word_embeddings is 1, expected true or false");
  expect_error(
      with(llama(), {{"architectures", "[]"}}), ErrorCode::kCorrupt, "architectures is []");
  expect_error(with(llama(), {{"rope_scaling", "7"}}), ErrorCode::kCorrupt, "rope_scaling is 7");
  expect_error(rope(R"({"rope_type": "linear"})"), ErrorCode::kCorrupt, "rope_scaling.factor is");
  expect_error(rope(R"({"factor": 2})"), ErrorCode::kCorrupt, "without rope_type");
  expect_error("{", ErrorCode::kCorrupt, HasSubstr("is not JSON"));
  expect_error("", ErrorCode::kCorrupt, HasSubstr("is empty"));
  expect_error("[]", ErrorCode::kCorrupt, HasSubstr("not an object"));
  expect_error("{}", ErrorCode::kCorrupt, HasSubstr("architectures and model_type are missing"));
  expect_error(R"({"model_type": "llama", "model_type": "qwen2"})",
               ErrorCode::kCorrupt,
               HasSubstr("'model_type' appears twice"));
  expect_error(rope(R"({"rope_type": "linear", "factor": 2, "factor": 4})"),
               ErrorCode::kCorrupt,
               "'rope_scaling.factor' appears twice");
}

TEST(HuggingFaceConfig, a_window_counts_where_the_family_uses_it) {
  const auto window = [](const Settings& fields, const char* gguf) {
    const Read model = read(fields);
    const std::string key = fmt::format("{}.attention.sliding_window", gguf);
    return model.has(key) ? model.get<int64_t>(key) : 0;
  };
  const Settings mistral = family("MistralForCausalLM", "mistral");
  EXPECT_EQ(window(mistral, "llama"), 4096);
  EXPECT_EQ(window(with(mistral, {{"sliding_window", "null"}}), "llama"), 0);
  EXPECT_EQ(window(with(mistral, {{"sliding_window", "128"}}), "llama"), 128);
  const Settings qwen = with(family("Qwen2ForCausalLM", "qwen2"), {{"sliding_window", "128"}});
  EXPECT_EQ(window(qwen, "qwen2"), 0);
  for (const auto& [architecture, type] :
       {std::pair("Qwen2ForCausalLM", "qwen2"), std::pair("Qwen3ForCausalLM", "qwen3")}) {
    const Settings usual = with(family(architecture, type), {{"use_sliding_window", "true"}});
    EXPECT_EQ(window(usual, type), 4096);
  }
  EXPECT_EQ(window(with(qwen, {{"use_sliding_window", "false"}}), "qwen2"), 0);
  EXPECT_EQ(window(with(qwen, {{"use_sliding_window", "true"}}), "qwen2"), 128);
  EXPECT_EQ(window(llama(), "llama"), 0);
}

TEST(HuggingFaceConfig, rope_scaling_of_old_and_new_files_reads_alike) {
  for (const char* key : {"type", "rope_type"}) {
    const Read linear = read(rope(fmt::format(R"({{"{}": "linear", "factor": 4}})", key)));
    EXPECT_EQ(linear.get<std::string_view>("llama.rope.scaling.type"), "linear");
    EXPECT_EQ(linear.get<float>("llama.rope.scaling.factor"), 4.0f);
    EXPECT_EQ(linear.get<int64_t>("llama.context_length"), 512);
  }
  const Read newer = read(
      with(llama(),
           {{"rope_parameters", R"({"rope_theta": 1e6, "rope_type": "linear", "factor": 2.0})"}}));
  EXPECT_EQ(newer.get<float>("llama.rope.freq_base"), 1e6f);
  EXPECT_EQ(newer.get<float>("llama.rope.scaling.factor"), 2.0f);
}

TEST(HuggingFaceConfig, llama3_scaling_becomes_the_divisors) {
  const std::string scaling =
      R"({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,)"
      R"( "original_max_position_embeddings": 64})";
  const Read model = read(with(rope(scaling), {{"rope_theta", "500000"}}));
  const std::vector<float>& factors = model.config.rope_factors;
  ASSERT_EQ(factors.size(), 8u);  // pairs of a head
  EXPECT_EQ(factors.front(), 1.0f);
  EXPECT_EQ(factors.back(), 32.0f);
  // The pair whose wavelength lies between 64 / 4 and 64 / 1.
  const double wavelength = 2 * M_PI * std::pow(500000.0, 2.0 / 16);
  const double smooth = (64 / wavelength - 1) / 3;
  EXPECT_FLOAT_EQ(factors[1], static_cast<float>(1 / ((1 - smooth) / 32 + smooth)));
  EXPECT_FALSE(model.has("llama.rope.scaling.type"));
  expect_error(rope(R"({"rope_type": "llama3", "factor": 8.0})"),
               ErrorCode::kCorrupt,
               "rope_scaling.low_freq_factor is missing");
  expect_error(rope(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,)"
                    R"( "high_freq_factor": 4.0, "original_max_position_embeddings": 32})"),
               ErrorCode::kCorrupt,
               "not above low_freq_factor 4");
}

TEST(HuggingFaceConfig, yarn_has_the_window_that_it_is_for_and_the_gain_that_it_names) {
  const auto yarn = [](const std::string& more) {
    return read(rope(R"({"rope_type": "yarn", "factor": 4.0,)"
                     R"( "original_max_position_embeddings": 256)" +
                     more + "}"));
  };
  const double usual = 0.1 * std::log(4.0) + 1;
  const Read plain = yarn("");
  EXPECT_EQ(plain.get<std::string_view>("llama.rope.scaling.type"), "yarn");
  EXPECT_EQ(plain.get<float>("llama.rope.scaling.factor"), 4.0f);
  EXPECT_EQ(plain.get<int64_t>("llama.rope.scaling.original_context_length"), 256);
  EXPECT_EQ(plain.get<int64_t>("llama.context_length"), 1024);
  EXPECT_FALSE(plain.has("llama.rope.scaling.attn_factor"));
  EXPECT_FALSE(plain.has("llama.rope.scaling.yarn_beta_fast"));
  const Read ramp = yarn(R"(, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.5)");
  EXPECT_EQ(ramp.get<float>("llama.rope.scaling.yarn_beta_fast"), 16.0f);
  EXPECT_EQ(ramp.get<float>("llama.rope.scaling.yarn_beta_slow"), 2.0f);
  EXPECT_THAT(ramp.get<float>("llama.rope.scaling.attn_factor"), FloatEq(float(1.5 / usual)));
  const Read scaled = yarn(R"(, "mscale": 0.707, "mscale_all_dim": 1.0)");
  const double gain = (0.0707 * std::log(4.0) + 1) / usual;
  EXPECT_THAT(scaled.get<float>("llama.rope.scaling.attn_factor"), FloatEq(float(gain / usual)));
  const Read own = read(rope(R"({"type": "yarn", "factor": 2.0})"));
  EXPECT_EQ(own.get<int64_t>("llama.rope.scaling.original_context_length"), 512);
  EXPECT_EQ(own.get<int64_t>("llama.context_length"), 1024);
}

}  // namespace
}  // namespace millrace

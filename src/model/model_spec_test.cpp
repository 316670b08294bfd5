#include "model/model_spec.h"

#include <gmock/gmock.h>

#include <functional>

#include "formats/gguf.h"
#include "model/golden_testing.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Reads the spec of a golden model after a change to its file.
Result<ModelSpec> spec_of(const std::string& golden,
                          const std::function<void(test::GoldenModel&)>& change = {}) {
  test::GoldenModel model = test::read_golden(golden);
  if (change) change(model);
  const Buffer bytes = model.gguf();
  const auto file = parse_gguf(bytes.bytes(), "test.gguf");
  if (!file) return propagate(file);
  return read_model_spec(*file);
}

void expect_error(const Result<ModelSpec>& spec,
                  ErrorCode code,
                  const testing::Matcher<const std::string&>& message) {
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code, code) << spec.error().message;
  EXPECT_THAT(spec.error().message, message);
}

TEST(ModelSpec, reads_every_family) {
  const auto llama = spec_of("llama2");
  ASSERT_TRUE(llama) << llama.error().message;
  EXPECT_EQ(llama->architecture, "llama");
  EXPECT_EQ(llama->n_layers, 2);
  EXPECT_EQ(llama->n_embd, 64);
  EXPECT_EQ(llama->n_heads, 4);
  EXPECT_EQ(llama->head_dim, 16);
  EXPECT_EQ(llama->n_ff, 96);
  EXPECT_EQ(llama->n_vocab, 96);
  EXPECT_EQ(llama->context_length, 512);
  EXPECT_FLOAT_EQ(llama->rms_eps, 1e-5f);
  EXPECT_EQ(llama->rope.style, RotaryStyle::kAdjacent);
  EXPECT_FALSE(llama->is_tied || llama->has_qk_norm || llama->has_qkv_bias);

  const auto qwen2 = spec_of("qwen2");
  ASSERT_TRUE(qwen2) << qwen2.error().message;
  EXPECT_EQ(qwen2->rope.style, RotaryStyle::kHalfSplit);
  EXPECT_EQ(qwen2->rope.base, 1e6);
  EXPECT_TRUE(qwen2->has_qkv_bias && !qwen2->has_output_bias);

  const auto qwen3 = spec_of("qwen3");
  ASSERT_TRUE(qwen3) << qwen3.error().message;
  EXPECT_EQ(qwen3->head_dim, 24);  // not 64 / 4
  EXPECT_EQ(qwen3->group_size(), 2);
  EXPECT_TRUE(qwen3->has_qk_norm && qwen3->is_tied && !qwen3->has_qkv_bias);

  const auto biased = spec_of("llama_bias");
  ASSERT_TRUE(biased) << biased.error().message;
  EXPECT_TRUE(biased->has_qkv_bias && biased->has_output_bias);
}

TEST(ModelSpec, reads_every_rope_scaling) {
  const auto factors = spec_of("llama3_2");
  ASSERT_TRUE(factors) << factors.error().message;
  EXPECT_TRUE(factors->rope.has_factors);
  const auto linear = spec_of("llama_linear");
  ASSERT_TRUE(linear) << linear.error().message;
  EXPECT_EQ(linear->rope.scaling, RopeScalingType::kLinear);
  EXPECT_EQ(linear->rope.factor, 4.0);
  const auto yarn = spec_of("llama_yarn");
  ASSERT_TRUE(yarn) << yarn.error().message;
  EXPECT_EQ(yarn->rope.scaling, RopeScalingType::kYarn);
  EXPECT_EQ(yarn->rope.original_context_length, 32);
  EXPECT_NEAR(yarn->rope.attention_factor, 0.1 * std::log(4.0) + 1, 1e-12);
}

TEST(ModelSpec, a_factor_without_a_type_is_linear_and_none_ignores_it) {
  const auto old = spec_of("llama2", [](auto& m) { m.metadata["llama.rope.scale_linear"] = 8.0f; });
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_EQ(old->rope.scaling, RopeScalingType::kLinear);
  EXPECT_EQ(old->rope.factor, 8.0);
  const auto none = spec_of("llama2", [](auto& m) {
    m.metadata["llama.rope.scaling.type"] = std::string("none");
    m.metadata["llama.rope.scaling.factor"] = 8.0f;
  });
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none->rope.scaling, RopeScalingType::kNone);
  EXPECT_EQ(none->rope.factor, 1.0);
}

TEST(ModelSpec, yarn_without_an_original_context_takes_the_models_own) {
  const auto yarn = spec_of("llama_yarn", [](auto& m) {
    m.metadata.erase("llama.rope.scaling.original_context_length");
  });
  ASSERT_TRUE(yarn) << yarn.error().message;
  EXPECT_EQ(yarn->rope.original_context_length, 512);
}

TEST(ModelSpec, an_unknown_architecture_is_named_with_the_known_ones) {
  expect_error(
      spec_of("llama2", [](auto& m) { m.metadata["general.architecture"] = std::string("gpt9"); }),
      ErrorCode::kUnsupported,
      AllOf(HasSubstr("gpt9"), HasSubstr("llama, qwen2, qwen3")));
}

TEST(ModelSpec, a_missing_tensor_is_named_with_its_shape) {
  expect_error(spec_of("qwen2",
                       [](auto& m) {
                         std::erase_if(m.tensors,
                                       [](auto& t) { return t.name == "blk.1.attn_k.bias"; });
                       }),
               ErrorCode::kCorrupt,
               AllOf(HasSubstr("blk.1.attn_k.bias"), HasSubstr("[32, 1]")));
  expect_error(spec_of("llama2", [](auto& m) { m.metadata["llama.block_count"] = uint32_t{3}; }),
               ErrorCode::kCorrupt,
               HasSubstr("blk.2.attn_norm.weight"));
}

TEST(ModelSpec, a_misshaped_tensor_is_named_with_both_shapes) {
  expect_error(
      spec_of("llama2",
              [](auto& m) {
                m.find("blk.0.ffn_up.weight")->shape = {96, 64};
              }),
      ErrorCode::kCorrupt,
      AllOf(HasSubstr("blk.0.ffn_up.weight"), HasSubstr("[96, 64]"), HasSubstr("[64, 96]")));
}

TEST(ModelSpec, a_tensor_that_the_decoder_would_ignore_is_refused) {
  for (const char* name : {"blk.0.ffn_up.bias",
                           "blk.1.attn_q_norm.weight",
                           "blk.2.attn_norm.weight",
                           "rope_factors_long.weight"}) {
    expect_error(spec_of("llama2",
                         [&](auto& m) {
                           auto extra = *m.find("output_norm.weight");
                           extra.name = name;
                           m.tensors.push_back(extra);
                         }),
                 ErrorCode::kUnsupported,
                 AllOf(HasSubstr(name), HasSubstr("not used")));
  }
}

TEST(ModelSpec, features_that_change_the_computation_are_refused_by_name) {
  struct Case {
    const char* key;
    float value;
    const char* feature;
  };
  const Case cases[] = {{"llama.expert_count", 8, "mixture of experts"},
                        {"llama.attn_logit_softcapping", 50, "soft-capping"},
                        {"llama.attention.sliding_window", 256, "sliding window"},
                        {"llama.logit_scale", 0.5, "logit scale"},
                        {"llama.attention.causal", 0, "not causal"}};
  for (const Case& c : cases) {
    expect_error(spec_of("llama2",
                         [&](auto& m) {
                           if (c.value == std::floor(c.value)) {
                             m.metadata[c.key] = uint32_t(c.value);
                           } else {
                             m.metadata[c.key] = c.value;
                           }
                         }),
                 ErrorCode::kUnsupported,
                 AllOf(HasSubstr(c.key), HasSubstr(c.feature)));
  }
  expect_error(
      spec_of("llama2",
              [](auto& m) { m.metadata["llama.rope.scaling.type"] = std::string("longrope"); }),
      ErrorCode::kUnsupported,
      HasSubstr("longrope"));
}

TEST(ModelSpec, features_with_their_neutral_value_are_accepted) {
  const auto spec = spec_of("llama2", [](auto& m) {
    m.metadata["llama.expert_count"] = uint32_t{0};
    m.metadata["llama.attention.sliding_window"] = uint32_t{512};
    m.metadata["llama.logit_scale"] = 1.0f;
  });
  EXPECT_TRUE(spec) << spec.error().message;
}

TEST(ModelSpec, impossible_hyperparameters_are_refused) {
  struct Case {
    const char* key;
    uint32_t value;
  };
  const Case cases[] = {{"llama.attention.head_count", 0},
                        {"llama.attention.head_count_kv", 3},
                        {"llama.attention.head_count", 5},
                        {"llama.attention.key_length", 15},
                        {"llama.attention.key_length", 4096},
                        {"llama.attention.value_length", 8},
                        {"llama.rope.dimension_count", 8},
                        {"llama.block_count", 0},
                        {"llama.block_count", 0xffffffff},
                        {"llama.embedding_length", 0x7fffffff},
                        {"llama.context_length", 0},
                        {"llama.attention.layer_norm_rms_epsilon", 0}};
  for (const Case& c : cases) {
    const auto spec = spec_of("llama2", [&](auto& m) { m.metadata[c.key] = c.value; });
    ASSERT_FALSE(spec) << c.key << " " << c.value;
    EXPECT_THAT(spec.error().message, HasSubstr("[model] test.gguf"));
  }
  const auto missing = spec_of("llama2", [](auto& m) { m.metadata.erase("llama.block_count"); });
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("llama.block_count"));
}

}  // namespace
}  // namespace millrace

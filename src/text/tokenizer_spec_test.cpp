#include "text/tokenizer_spec.h"

#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace millrace {
namespace {

GgufTokenizerFields small_fields() {
  GgufTokenizerFields fields;
  fields.model = "gpt2";
  fields.pre = "llama-bpe";
  fields.tokens = {"a", "b", "ab", "<|begin_of_text|>", "<|eot_id|>", "<|end_of_text|>"};
  fields.token_types = {1, 1, 1, 3, 3, 3};
  fields.merges = {"a b"};
  fields.bos = 3;
  fields.eos = 5;
  return fields;
}

Error error_of(const GgufTokenizerFields& fields) {
  const auto spec = tokenizer_spec_from_gguf_fields(fields);
  return spec ? Error{ErrorCode::kInternal, "none"} : spec.error();
}

TEST(TokenizerSpec, gguf_fields_make_a_tokenizer) {
  auto spec = tokenizer_spec_from_gguf_fields(small_fields());
  ASSERT_TRUE(spec) << spec.error().message;
  const auto tokenizer = Tokenizer::create(std::move(*spec));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("aab<|eot_id|>", true, true), (std::vector<TokenId>{3, 0, 2, 4}));
}

TEST(TokenizerSpec, unknown_models_and_pre_tokenizers_are_refused_by_name) {
  GgufTokenizerFields fields = small_fields();
  fields.pre = "brand-new";
  EXPECT_EQ(error_of(fields).code, ErrorCode::kUnsupported);
  EXPECT_NE(error_of(fields).message.find("\"brand-new\""), std::string::npos);
  fields.model = "rwkv";
  fields.pre = "llama-bpe";
  EXPECT_EQ(error_of(fields).code, ErrorCode::kUnsupported);
  EXPECT_NE(error_of(fields).message.find("\"rwkv\""), std::string::npos);
}

TEST(TokenizerSpec, every_supported_name_is_known) {
  for (const char* name : {"gpt-2",
                           "gpt2",
                           "llama-bpe",
                           "llama3",
                           "qwen2",
                           "deepseek-v3",
                           "deepseek-r1-qwen",
                           "tekken",
                           "gpt-4o",
                           "smollm",
                           "falcon",
                           "default",
                           ""}) {
    GgufTokenizerFields fields = small_fields();
    fields.pre = name;
    const auto spec = tokenizer_spec_from_gguf_fields(fields);
    ASSERT_TRUE(spec) << name;
    ASSERT_FALSE(spec->pre_tokenizers.empty());
    for (const PreTokenizerStep& step : spec->pre_tokenizers) {
      EXPECT_FALSE(step.pattern.empty());
    }
    EXPECT_TRUE(Tokenizer::create(*spec)) << name;
  }
}

TEST(TokenizerSpec, contradictions_name_their_key) {
  GgufTokenizerFields fields = small_fields();
  fields.token_types.pop_back();
  EXPECT_NE(error_of(fields).message.find("token_type"), std::string::npos);
  fields = small_fields();
  fields.token_types[0] = 7;
  EXPECT_EQ(error_of(fields).code, ErrorCode::kCorrupt);
  fields = small_fields();
  fields.eot = 6;
  EXPECT_NE(error_of(fields).message.find("eot_token_id"), std::string::npos);
  fields = small_fields();
  fields.merges = {"ab"};
  EXPECT_EQ(error_of(fields).code, ErrorCode::kCorrupt);
}

TEST(TokenizerSpec, an_id_of_2_to_the_32_minus_1_means_none) {
  GgufTokenizerFields fields = small_fields();
  fields.bos = 0xFFFFFFFF;
  const auto spec = tokenizer_spec_from_gguf_fields(fields);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->bos, kNoToken);
  EXPECT_TRUE(spec->prefix.empty());
}

TEST(TokenizerSpec, bos_follows_the_key_and_else_the_family) {
  GgufTokenizerFields fields = small_fields();
  EXPECT_EQ(tokenizer_spec_from_gguf_fields(fields)->prefix, std::vector<TokenId>{3});
  fields.add_bos = false;
  EXPECT_TRUE(tokenizer_spec_from_gguf_fields(fields)->prefix.empty());
  fields.add_bos.reset();
  fields.pre = "qwen2";
  EXPECT_TRUE(tokenizer_spec_from_gguf_fields(fields)->prefix.empty());
  fields.add_bos = true;
  fields.add_eos = true;
  EXPECT_EQ(tokenizer_spec_from_gguf_fields(fields)->prefix, std::vector<TokenId>{3});
  EXPECT_EQ(tokenizer_spec_from_gguf_fields(fields)->suffix, std::vector<TokenId>{5});
}

TEST(TokenizerSpec, an_answer_ends_at_declared_ids_and_at_known_ends_of_turn) {
  // The file says 5; turns end with 4.
  EXPECT_EQ(tokenizer_spec_from_gguf_fields(small_fields())->end_of_generation,
            (std::vector<TokenId>{4, 5}));
  GgufTokenizerFields fields = small_fields();
  fields.token_types[4] = 1;  // an ordinary token that happens to look like one
  EXPECT_EQ(tokenizer_spec_from_gguf_fields(fields)->end_of_generation, std::vector<TokenId>{5});
}

TEST(TokenizerSpec, a_channel_end_does_not_end_the_answer_of_gpt_oss) {
  const std::vector<std::string> tokens = {"<|end|>", "<|return|>", "<|call|>"};
  const std::vector<TokenType> types(3, TokenType::kControl);
  EXPECT_EQ(find_end_of_generation(tokens, types, {}), (std::vector<TokenId>{1, 2}));
  const auto phi = std::span(tokens).first(1);
  EXPECT_EQ(find_end_of_generation(phi, types, {}), (std::vector<TokenId>{0}));
}

TEST(TokenizerSpec, sentence_piece_space_prefix_follows_the_key) {
  GgufTokenizerFields fields;
  fields.model = "llama";
  fields.tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a", "<0x62>"};
  fields.token_types = {2, 3, 3, 1, 1, 1, 6};
  fields.scores = {0, 0, 0, -1, -2, -3, 0};
  fields.bos = 1;
  for (const bool has_prefix : {true, false}) {
    fields.add_space_prefix = has_prefix;
    auto spec = tokenizer_spec_from_gguf_fields(fields);
    ASSERT_TRUE(spec);
    const auto tokenizer = Tokenizer::create(std::move(*spec));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("a ab", true, false),
              has_prefix ? (std::vector<TokenId>{1, 5, 5, 6}) : (std::vector<TokenId>{1, 4, 5, 6}));
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{5, 6}), has_prefix ? "ab" : " ab");
  }
}

}  // namespace
}  // namespace millrace

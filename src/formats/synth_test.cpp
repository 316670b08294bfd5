#include "formats/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "formats/gguf.h"
#include "formats/gguf_testing.h"
#include "formats/synth_vocab.h"
#include "formats/synth_weights.h"

namespace millrace {
namespace {

using testing_support::TempFolder;

std::string read_all(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(synth_shapes, have_the_parameter_counts_of_the_model_cards) {
  const std::map<std::string, int64_t> published = {{"qwen3-0.6b", 596'049'920},
                                                    {"qwen3-1.7b", 1'720'574'976},
                                                    {"qwen3-8b", 8'190'735'360},
                                                    {"llama3.2-1b", 1'235'814'400},
                                                    {"llama3.1-8b", 8'030'261'248},
                                                    {"smollm2-135m", 134'515'008}};
  const auto shapes = synth_shapes();
  EXPECT_EQ(shapes.size(), published.size());
  for (const ModelShape& shape : shapes) {
    EXPECT_EQ(count_parameters(shape), published.at(shape.name)) << shape.name;
  }
  EXPECT_THAT(synth_shape("gpt-9").error().message, testing::HasSubstr("qwen3-0.6b"));
}

TEST(synth_vocabulary, every_merge_joins_two_earlier_tokens_into_the_next) {
  for (const auto& [pre, n_tokens] : std::vector<std::pair<std::string, int>>{{"qwen2", 151936},
                                                                              {"llama-bpe", 128256},
                                                                              {"smollm", 49152},
                                                                              {"qwen2", 512},
                                                                              {"smollm", 264}}) {
    const SynthVocabulary vocabulary = make_synth_vocabulary(pre, n_tokens);
    ASSERT_EQ(vocabulary.tokens.size(), static_cast<size_t>(n_tokens));
    ASSERT_EQ(vocabulary.types.size(), vocabulary.tokens.size());
    std::unordered_map<std::string_view, size_t> ids;
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
      ASSERT_TRUE(ids.emplace(vocabulary.tokens[i], i).second) << vocabulary.tokens[i];
    }
    size_t last = 0;
    for (const std::string& merge : vocabulary.merges) {
      const size_t space = merge.find(' ');
      const std::string left = merge.substr(0, space);
      const std::string right = merge.substr(space + 1);
      const size_t joined = ids.at(left + right);
      ASSERT_LT(ids.at(left), joined);
      ASSERT_LT(ids.at(right), joined);
      ASSERT_GT(joined, last);
      last = joined;
    }
    EXPECT_EQ(vocabulary.types[static_cast<size_t>(vocabulary.eos)], 3);
    EXPECT_EQ(vocabulary.types[static_cast<size_t>(vocabulary.bos)], 3);
  }
  EXPECT_EQ(make_synth_vocabulary("qwen2", 151936).eos, 151645);
  EXPECT_EQ(make_synth_vocabulary("smollm", 49152).eos, 2);
}

TEST(normal_stream, has_the_moments_of_a_normal) {
  const NormalStream normals(7);
  std::vector<float> values(1 << 18);
  normals.fill(3, 0, 1.0f, 2.0f, values);
  double sum = 0.0, squares = 0.0, fourths = 0.0;
  for (const float value : values) {
    const double z = (value - 1.0) / 2.0;
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0.0, 0.01);
  EXPECT_NEAR(squares / n, 1.0, 0.01);
  EXPECT_NEAR(fourths / n, 3.0, 0.06);
}

TEST(normal_stream, rows_and_streams_and_seeds_differ) {
  std::set<std::vector<float>> seen;
  for (const uint64_t seed : {1, 2}) {
    const NormalStream normals(seed);
    for (const uint32_t stream : {0u, 1u}) {
      for (const int64_t row : {0, 1}) {
        std::vector<float> values(10);
        normals.fill(stream, row, 0.0f, 1.0f, values);
        EXPECT_TRUE(seen.insert(values).second);
      }
    }
  }
}

TEST(random_model, does_not_depend_on_the_number_of_threads) {
  const TempFolder folder;
  ModelShape shape;
  shape.dtype = DType::kQ8_0;
  ASSERT_TRUE(write_random_model(folder.path("one"), shape, 5, 1));
  ASSERT_TRUE(write_random_model(folder.path("three"), shape, 5, 3));
  ASSERT_TRUE(write_random_model(folder.path("other"), shape, 6, 1));
  EXPECT_EQ(read_all(folder.path("one")), read_all(folder.path("three")));
  EXPECT_NE(read_all(folder.path("one")), read_all(folder.path("other")));
}

TEST(random_model, opens_with_the_tensors_of_its_family) {
  const TempFolder folder;
  ModelShape shape;
  shape.architecture = "qwen3";
  shape.has_qk_norm = true;
  shape.has_qkv_bias = true;
  shape.is_tied = true;
  shape.norm_std = 0.1f;
  shape.dtype = DType::kQ4_K;
  shape.n_embd = 64;
  shape.n_ff = 256;
  int64_t last = 0, total = 0;
  const auto done =
      write_random_model(folder.path("m.gguf"), shape, 1, 2, [&](int64_t now, int64_t all) {
        EXPECT_GE(now, last);
        last = now;
        total = all;
        return true;
      });
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(last, total);
  const auto file = open_gguf(folder.path("m.gguf"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find("output.weight"), nullptr);
  EXPECT_EQ(file->find("blk.1.attn_k_norm.weight")->n_values(), 16);
  EXPECT_EQ(file->find("blk.0.attn_q.bias")->n_values(), 64);
  EXPECT_EQ(file->find("blk.0.ffn_up.weight")->dtype, DType::kQ5_0);  // rows of 64
  EXPECT_EQ(file->find("blk.0.ffn_down.weight")->dtype, DType::kQ4_K);
  EXPECT_EQ(file->metadata().get<int32_t>("qwen3.attention.key_length").value(), 16);
  EXPECT_EQ(
      file->metadata().get<std::vector<std::string_view>>("tokenizer.ggml.tokens").value().size(),
      320u);
  const TensorView& norm = *file->find("output_norm.weight");
  std::vector<float> values(64);
  dtype_info(norm.dtype).decode(norm.data.data(), values.data(), 64);
  EXPECT_NEAR(values[0], 1.0f, 0.6f);
  EXPECT_NE(values[0], values[1]);
}

TEST(random_model, progress_counts_the_whole_file) {
  const TempFolder folder;
  int64_t total = 0;
  ASSERT_TRUE(
      write_random_model(folder.path("m.gguf"), ModelShape{}, 1, 1, [&](int64_t, int64_t all) {
        total = all;
        return true;
      }));
  EXPECT_EQ(total, static_cast<int64_t>(read_all(folder.path("m.gguf")).size()));
}

TEST(random_model, a_stopped_run_leaves_everything_as_it_was) {
  const TempFolder folder;
  std::ofstream(folder.path("m.gguf")) << "before";
  const auto done = write_random_model(
      folder.path("m.gguf"), ModelShape{}, 1, 1, [&](int64_t, int64_t) { return false; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(read_all(folder.path("m.gguf")), "before");
  EXPECT_FALSE(std::filesystem::exists(folder.path("m.gguf.part")));
}

TEST(random_model, a_target_that_is_no_file_is_refused_before_anything_is_written) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path("taken"));
  for (const auto& [path, words] : std::vector<std::pair<std::string, std::string>>{
           {folder.path("taken"), "is a folder"},
           {folder.path("taken") + "/", "is a folder"},
           {"/dev/null", "not a regular file"},
           {folder.path("missing/m.gguf"), "no folder"},
           {folder.path("new/"), "no folder"},
           {"", "does not name a file"}}) {
    const auto done = write_random_model(path, ModelShape{}, 1);
    ASSERT_FALSE(done) << path;
    EXPECT_THAT(done.error().message, testing::HasSubstr(words)) << path;
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  }
}

TEST(random_model, llama3_scaling_is_a_tensor_of_divisors) {
  const TempFolder folder;
  auto shape = synth_shape("llama3.2-1b").value();
  shape.n_layers = 1;
  shape.n_embd = 32;
  shape.n_ff = 32;
  shape.n_vocab = 300;
  shape.n_heads = 1;
  shape.n_kv_heads = 1;
  ASSERT_TRUE(write_random_model(folder.path("m.gguf"), shape, 1));
  const auto file = open_gguf(folder.path("m.gguf"));
  const TensorView* divisors = file->find("rope_freqs.weight");
  ASSERT_NE(divisors, nullptr);
  std::vector<float> values(32);
  dtype_info(DType::kF32).decode(divisors->data.data(), values.data(), 32);
  EXPECT_EQ(values.front(), 1.0f);
  EXPECT_EQ(values.back(), 32.0f);
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float v) { return v > 1 && v < 32; }));
}

TEST(random_model, a_vocabulary_too_small_for_the_bytes_is_refused) {
  const TempFolder folder;
  ModelShape shape;
  shape.n_vocab = 100;
  const auto done = write_random_model(folder.path("m.gguf"), shape, 1);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
  shape.has_tokenizer = false;
  EXPECT_TRUE(write_random_model(folder.path("m.gguf"), shape, 1));
}

TEST(synth_fallback, keeps_whole_blocks_and_else_takes_the_nearest_plain_type) {
  EXPECT_EQ(synth_fallback(DType::kQ4_K, 512), DType::kQ4_K);
  EXPECT_EQ(synth_fallback(DType::kQ4_K, 576), DType::kQ5_0);
  EXPECT_EQ(synth_fallback(DType::kQ6_K, 576), DType::kQ8_0);
  EXPECT_EQ(synth_fallback(DType::kQ8_0, 40), DType::kF16);
  EXPECT_EQ(synth_fallback(DType::kF32, 7), DType::kF32);
}

// The head's row of a token is the embedding of the one before it in the pattern, or a row of its
// own where the model does not know it: for the same tokens in every model.
TEST(synth, pattern_lies_in_the_head_for_a_share_of_the_tokens) {
  const TempFolder folder;
  std::vector<std::set<int64_t>> known;
  for (const int n_embd : {32, 64}) {
    ModelShape shape;
    shape.n_embd = n_embd;
    shape.n_vocab = 2'000;
    shape.is_tied = true;
    shape.pattern_share = 0.8;
    const std::string path = folder.path("pattern" + std::to_string(n_embd) + ".gguf");
    ASSERT_TRUE(write_random_model(path, shape, static_cast<uint64_t>(n_embd)));
    const auto file = open_gguf(path);
    ASSERT_TRUE(file);
    const TensorView* embedding = file->find("token_embd.weight");
    const TensorView* head = file->find("output.weight");
    ASSERT_TRUE(embedding != nullptr && head != nullptr);
    known.emplace_back();
    const auto row = [](const TensorView& tensor, int64_t r) {
      return std::string_view(reinterpret_cast<const char*>(tensor.row(r)),
                              static_cast<size_t>(tensor.row_bytes()));
    };
    for (int64_t token = 0; token < shape.n_vocab; ++token) {
      if (row(*head, (token + kPatternStep) % shape.n_vocab) == row(*embedding, token)) {
        known.back().insert(token);
      }
    }
    EXPECT_NEAR(static_cast<double>(known.back().size()), 1'600, 80);
    const TensorView* down = file->find("blk.1.ffn_down.weight");
    ASSERT_NE(down, nullptr);
    EXPECT_THAT(row(*down, 0), testing::Each('\0'));
  }
  EXPECT_EQ(known[0], known[1]);
}

}  // namespace
}  // namespace millrace

// What a file's tokens cost, against counts by hand.

#include "model/token_cost.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "formats/gguf.h"
#include "formats/synth.h"

namespace millrace {
namespace {

using kernels::DotKind;

class TokenCostTest : public testing::Test {
 protected:
  TokenCostTest()
      : path_(std::filesystem::temp_directory_path() /
              ("millrace_token_cost_" + std::to_string(getpid()) + ".gguf")) {}
  ~TokenCostTest() override { std::filesystem::remove(path_); }

  TokenCost cost_of(const ModelShape& shape, kernels::Isa isa) {
    EXPECT_TRUE(write_random_model(path_.string(), shape, 1));
    const auto file = open_gguf(path_.string());
    EXPECT_TRUE(file) << file.error().message;
    const auto spec = read_model_spec(*file);
    EXPECT_TRUE(spec) << spec.error().message;
    n_layers_ = spec->n_layers;
    n_query_ = spec->n_query();
    n_key_ = spec->n_key();
    n_vocab_ = spec->n_vocab;
    return token_cost(*file, *spec, {KvType::kBF16, spec->head_dim}, isa);
  }

  static double of(const std::array<double, kernels::kDotKinds>& macs, DotKind kind) {
    return macs[static_cast<size_t>(kind)];
  }

  const std::filesystem::path path_;
  double n_layers_ = 0;
  double n_query_ = 0;
  double n_key_ = 0;
  double n_vocab_ = 0;
};

TEST_F(TokenCostTest, counts_every_multiply_add_under_its_kind_of_dot_product) {
  for (const bool is_tied : {true, false}) {
    ModelShape shape;
    shape.n_embd = 256;
    shape.n_ff = 512;
    shape.is_tied = is_tied;
    shape.dtype = DType::kQ4_K;
    const TokenCost cost = cost_of(shape, kernels::Isa::kAvx2);
    // Attention and head are rounded finely (docs/adr/0001), the feed-forward part coarsely.
    EXPECT_EQ(of(cost.layer_macs, DotKind::kInt8), n_layers_ * 3 * 256 * 512);
    EXPECT_EQ(of(cost.layer_macs, DotKind::kInt16),
              n_layers_ * 256 * (n_query_ + 2 * n_key_ + n_query_));
    EXPECT_EQ(of(cost.layer_macs, DotKind::kF32), 0);
    EXPECT_EQ(of(cost.head_macs, DotKind::kInt16), n_vocab_ * 256);
    EXPECT_EQ(of(cost.attention_macs, DotKind::kF32), 2 * n_layers_ * n_query_);
    EXPECT_EQ(cost.kv_bytes, n_layers_ * 2 * n_key_ * 2);
  }
}

TEST_F(TokenCostTest, counts_bf16_dot_products_where_the_instruction_set_has_them) {
  ModelShape shape;
  shape.n_embd = 256;
  shape.n_ff = 512;
  shape.dtype = DType::kBF16;
  const TokenCost without = cost_of(shape, kernels::Isa::kAvx512);
  EXPECT_EQ(of(without.layer_macs, DotKind::kBF16), 0);
  EXPECT_EQ(of(without.attention_macs, DotKind::kBF16), 0);
  const TokenCost with = cost_of(shape, kernels::Isa::kAvx512Bf16);
  EXPECT_EQ(of(with.layer_macs, DotKind::kBF16), n_layers_ * 3 * 256 * 512);
  EXPECT_EQ(of(with.layer_macs, DotKind::kF32),
            n_layers_ * 256 * (n_query_ + 2 * n_key_ + n_query_));
  EXPECT_EQ(of(with.attention_macs, DotKind::kF32), n_layers_ * n_query_);
  EXPECT_EQ(of(with.attention_macs, DotKind::kBF16), n_layers_ * n_query_);
}

TEST_F(TokenCostTest, a_prompt_takes_the_sum_of_its_parts) {
  TokenCost cost;
  cost.layer_macs = {0, 20, 300};
  cost.head_macs = {0, 7, 0};
  cost.attention_macs = {5};
  cost.weight_bytes = 1000;
  cost.kv_bytes = 10;
  kernels::DotPeaks peaks;
  peaks.all[static_cast<int>(DotKind::kF32)] = 1;
  peaks.all[static_cast<int>(DotKind::kInt16)] = 2;
  peaks.all[static_cast<int>(DotKind::kInt8)] = 4;
  // Three tokens see 1, 2 and 3 positions; only the last one has logits.
  EXPECT_DOUBLE_EQ(least_prefill_seconds(cost, peaks, 3),
                   3 * (20.0 / 2 + 300.0 / 4) + 7.0 / 2 + 6 * 5.0);
  EXPECT_DOUBLE_EQ(decode_bytes(cost, 2.5), 1025);
}

}  // namespace
}  // namespace millrace

#include "kernels/attention.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/cpu/emulated_avx512_testing.h"
#include "kernels/cpu/wide_scalar_testing.h"
#include "kernels/isa.h"
#include "kernels/kernel_table.h"
#include "kernels/kv_type_name.h"
#include "tensor/half.h"

namespace millrace::kernels {
namespace {

// Whether softmax weights are rounded to bf16 on the way.
bool rounds_weights(const KernelTable& table, KvType type) {
  return table.attention_dots[static_cast<int>(type)].values == DotKind::kBF16;
}

// A sequence's pages in scattered blocks, its values in plain arrays for the oracle.
class Sequence {
 public:
  Sequence(const KernelTable& table, KvType type, int head_dim, int n_tokens, uint64_t seed)
      : table_(table), format_{type, head_dim} {
    const int n_blocks = (n_tokens + PageFormat::kTokens - 1) / PageFormat::kTokens;
    block_bytes_ = format_.bytes() + 128;
    memory_ = Buffer::allocate(size_t(2 * n_blocks + 1) * block_bytes_);
    // What earlier sequences left behind must not matter.
    float* junk = memory_.as<float>();
    for (size_t i = 0; i < memory_.size() / 4; ++i)
      junk[i] = std::numeric_limits<float>::quiet_NaN();
    for (int i = 0; i < n_blocks; ++i) blocks_.push_back(uint32_t(2 * (n_blocks - i)));
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    k_.resize(size_t(n_tokens) * head_dim);
    v_.resize(k_.size());
    for (float& x : k_) x = normal(random);
    for (float& x : v_) x = normal(random);
    for (int t = 0; t < n_tokens; ++t) {
      store(t);
      hold(&k_[size_t(t) * head_dim]);
      hold(&v_[size_t(t) * head_dim]);
    }
  }

  // The token's last value becomes infinite.
  void spoil(int token) {
    v_[size_t(token + 1) * format_.head_dim - 1] = std::numeric_limits<float>::infinity();
    store(token);
  }

  // All values become x.
  void level(float x) {
    std::fill(v_.begin(), v_.end(), x);
    for (int t = 0; t < int(v_.size()) / format_.head_dim; ++t) store(t);
  }

  std::vector<float> attend(const std::vector<float>& q,
                            int64_t position,
                            int n_tokens,
                            int n_heads) {
    const int d = format_.head_dim;
    std::vector<float> out(q.size(), -1.0f);
    Buffer scratch = Buffer::allocate(attention_scratch_floats(format_.v_dim()) * sizeof(float));
    std::memset(scratch.data(), 0xff, scratch.size());
    table_.attend[int(format_.type)]({.q = q.data(),
                                      .out = out.data(),
                                      .q_stride = int64_t{n_heads} * d,
                                      .out_stride = int64_t{n_heads} * d,
                                      .n_tokens = n_tokens,
                                      .n_heads = n_heads,
                                      .head_dim = d,
                                      .v_dim = format_.v_dim(),
                                      .position = position,
                                      .pages = reinterpret_cast<const uint8_t*>(memory_.data()),
                                      .block_bytes = int64_t(block_bytes_),
                                      .k_bytes = int64_t(format_.k_bytes()),
                                      .blocks = blocks_.data(),
                                      .scratch = scratch.as<float>()});
    return out;
  }

  // Plain softmax in double on the values as the pages hold them, and on the queries as int8 pages
  // have them rounded.
  std::vector<double> oracle(std::vector<float> q, int64_t position, int n_tokens, int n_heads) {
    const int d = format_.head_dim;
    std::vector<double> out(q.size());
    for (size_t at = 0; at < q.size() && format_.type == KvType::kInt8; at += size_t(d)) {
      round_to(&q[at], 16384, [](float x) { return std::nearbyint(x); });
    }
    for (int row = 0; row < n_tokens * n_heads; ++row) {
      const int64_t n_seen = position + row / n_heads + 1;
      std::vector<double> score(n_seen);
      double peak = -1e300;
      for (int64_t t = 0; t < n_seen; ++t) {
        for (int i = 0; i < d; ++i) score[t] += double(q[row * d + i]) * k_[t * d + i];
        peak = std::max(peak, score[t]);
      }
      double sum = 0;
      for (double& x : score) sum += x = std::exp2(x - peak);
      for (int64_t t = 0; t < n_seen; ++t) {
        for (int i = 0; i < d; ++i) out[row * d + i] += score[t] / sum * v_[t * d + i];
      }
    }
    return out;
  }

 private:
  // The values of one token and head become what a page makes of them.
  void hold(float* x) const {
    switch (format_.type) {
      case KvType::kF32:
        break;
      case KvType::kBF16:
        for (int i = 0; i < format_.head_dim; ++i) x[i] = bf16_to_f32(f32_to_bf16(x[i]));
        break;
      case KvType::kInt8:
        round_to(x, 127, [](float y) { return std::nearbyint(y); });
        break;
      case KvType::kFP8:
        round_to(x, 448, [](float y) { return e4m3_to_f32(f32_to_e4m3(y)); });
        break;
    }
  }

  template <class Round>
  void round_to(float* x, float limit, const Round& round) const {
    float peak = 0;
    for (int i = 0; i < format_.head_dim; ++i) peak = std::max(peak, std::abs(x[i]));
    for (int i = 0; i < format_.head_dim; ++i) x[i] = round(x[i] * (limit / peak)) * peak / limit;
  }

  void store(int token) {
    const size_t at = size_t(token) * format_.head_dim;
    std::byte* page = memory_.data() + blocks_[token / PageFormat::kTokens] * block_bytes_;
    table_.store_kv[int(format_.type)]({.k = k_.data() + at,
                                        .v = v_.data() + at,
                                        .page = reinterpret_cast<uint8_t*>(page),
                                        .k_bytes = int64_t(format_.k_bytes()),
                                        .head_dim = format_.head_dim,
                                        .v_dim = format_.v_dim(),
                                        .slot = token % PageFormat::kTokens});
  }

  const KernelTable& table_;
  PageFormat format_;
  size_t block_bytes_ = 0;
  Buffer memory_;
  std::vector<uint32_t> blocks_;
  std::vector<float> k_, v_;
};

std::vector<float> random_queries(int n, int head_dim, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 2.0f / std::sqrt(float(head_dim)));
  std::vector<float> q(size_t(n) * head_dim);
  for (float& x : q) x = normal(random);
  return q;
}

struct Case {
  // An Isa's name, "wide": portable registers of 16 lanes, or "emulated", "emulated-bf16": AVX-512
  // by SIMDe.
  const char* tier;
  KvType type;
};

class Attention : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string tier = GetParam().tier;
    if (tier == "wide") return;
    if (tier == "emulated" || tier == "emulated-bf16") {
      table_ = tier == "emulated" ? emulated_avx512_kernels() : emulated_avx512_bf16_kernels();
      if (table_ == nullptr || !isa_is_available(Isa::kAvx2)) {
        GTEST_SKIP() << "SIMDe (libsimde-dev) was not there at build time, or this CPU has no avx2";
      }
      return;
    }
    const auto isa = isa_from_name(tier);
    if (!isa) GTEST_SKIP() << isa.error().message;
    table_ = &kernel_table(*isa);
  }

  const KernelTable* table_ = &kWideScalarKernels;
};

TEST_P(Attention, equals_softmax_in_double_over_shapes_and_page_edges) {
  const KvType type = GetParam().type;
  struct Shape {
    int head_dim, n_heads, n_tokens;
    int64_t position;
  };
  const Shape shapes[] = {{8, 1, 1, 0},
                          {8, 2, 1, 62},
                          {8, 4, 8, 60},
                          {16, 3, 5, 63},
                          {24, 2, 16, 120},
                          {64, 3, 7, 64},
                          {64, 1, 32, 97},
                          {80, 5, 6, 1},
                          {96, 7, 4, 190},
                          {128, 2, 16, 0},
                          {128, 4, 8, 500},
                          {128, 32, 1, 1022},
                          {128, 2, 3, 1023},
                          {256, 1, 2, 127},
                          {64, 2, 1, 2100},
                          {10, 6, 5, 1020}};
  for (const Shape& s : shapes) {
    SCOPED_TRACE(testing::Message() << "d " << s.head_dim << " heads " << s.n_heads << " tokens "
                                    << s.n_tokens << " at " << s.position);
    Sequence sequence(*table_, type, s.head_dim, int(s.position) + s.n_tokens, 7);
    const auto q = random_queries(s.n_heads * s.n_tokens, s.head_dim, 8);
    const auto got = sequence.attend(q, s.position, s.n_tokens, s.n_heads);
    const auto want = sequence.oracle(q, s.position, s.n_tokens, s.n_heads);
    double error = 0, norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += (got[i] - want[i]) * (got[i] - want[i]);
      norm += want[i] * want[i];
    }
    // The weights of int8 pages are multiples of 2^-14 of the largest of their page, rounded ones
    // of BF16 pages off by up to 2^-9.
    const bool is_bf16 = rounds_weights(*table_, type);
    EXPECT_LT(error / norm, is_bf16 ? 0x1p-18 : type == KvType::kInt8 ? 3e-8 : 1e-11);
  }
}

TEST_P(Attention, a_row_is_the_same_bit_for_bit_in_any_tile) {
  const KvType type = GetParam().type;
  constexpr int kHeads = 2, kDim = 64, kTokens = 16, kAll = 1150;
  Sequence sequence(*table_, type, kDim, kAll, 3);
  for (const int64_t position : {0, 50, 60, 1010, 1134}) {
    const auto q = random_queries(kTokens * kHeads, kDim, 9);
    const auto together = sequence.attend(q, position, kTokens, kHeads);
    for (const int step : {1, 3, 5}) {
      for (int t = 0; t < kTokens; t += step) {
        const int n = std::min(step, kTokens - t);
        const size_t at = size_t(t) * kHeads * kDim, size = size_t(n) * kHeads * kDim;
        const std::vector<float> part(q.begin() + at, q.begin() + at + size);
        const auto alone = sequence.attend(part, position + t, n, kHeads);
        EXPECT_EQ(std::memcmp(alone.data(), together.data() + at, size * sizeof(float)), 0)
            << "position " << position << " token " << t << " step " << step;
      }
    }
    // One head at a time.
    for (int row = 0; row < kTokens * kHeads; ++row) {
      const std::vector<float> part(q.begin() + row * kDim, q.begin() + (row + 1) * kDim);
      const auto alone = sequence.attend(part, position + row / kHeads, 1, 1);
      EXPECT_EQ(std::memcmp(alone.data(), together.data() + row * kDim, kDim * sizeof(float)), 0);
    }
  }
}

TEST_P(Attention, large_scores_neither_overflow_nor_vanish) {
  const KvType type = GetParam().type;
  Sequence sequence(*table_, type, 16, 130, 5);
  auto q = random_queries(4, 16, 6);
  for (float& x : q) x *= 3000.0f;
  const auto got = sequence.attend(q, 128, 2, 2);
  const auto want = sequence.oracle(q, 128, 2, 2);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4);
}

TEST_P(Attention, weights_add_up_to_one) {
  const KvType type = GetParam().type;
  Sequence sequence(*table_, type, 16, 1200, 5);
  sequence.level(1.5f);
  const auto got = sequence.attend(random_queries(32, 16, 6), 1184, 16, 2);
  // Those of int8 pages are rounded behind the sum.
  for (const float x : got) EXPECT_NEAR(x, 1.5f, type == KvType::kInt8 ? 1e-3 : 3e-6);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string tier = info.param.tier;
  std::replace(tier.begin(), tier.end(), '-', '_');
  return tier + "_" + kv_type_name(info.param.type);
}

// Pages in which all values of a token and head share a scale.
class ScaledAttention : public Attention {};

// A key or value that is not a number spoils the rows that see it, and no others.
TEST_P(ScaledAttention, a_token_that_is_not_a_number_spoils_those_that_see_it) {
  Sequence sequence(*table_, GetParam().type, 16, 70, 5);
  const auto q = random_queries(8, 16, 6);
  const auto before = sequence.attend(q, 62, 8, 1);
  sequence.spoil(66);
  const auto after = sequence.attend(q, 62, 8, 1);
  for (int token = 0; token < 8; ++token) {
    for (int i = 0; i < 16; ++i) {
      const size_t at = size_t(token) * 16 + i;
      if (62 + token < 66) {
        EXPECT_EQ(after[at], before[at]);
      } else {
        EXPECT_TRUE(std::isnan(after[at]));
      }
    }
  }
}

std::vector<Case> cases(std::initializer_list<KvType> types) {
  std::vector<Case> all;
  for (const char* tier : {"scalar",
                           "avx2",
                           "avx-vnni",
                           "avx512",
                           "avx512-bf16",
                           "emulated",
                           "emulated-bf16",
                           "wide"}) {
    for (const KvType type : types) all.push_back({tier, type});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Tiers,
    Attention,
    testing::ValuesIn(cases({KvType::kBF16, KvType::kF32, KvType::kInt8, KvType::kFP8})),
    case_name);
INSTANTIATE_TEST_SUITE_P(Tiers,
                         ScaledAttention,
                         testing::ValuesIn(cases({KvType::kInt8, KvType::kFP8})),
                         case_name);

TEST(KvTypeName, goes_both_ways) {
  for (int type = 0; type < kKvTypes; ++type) {
    const auto back = kv_type_from_name(kv_type_name(static_cast<KvType>(type)));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, static_cast<KvType>(type));
  }
  const auto unknown = kv_type_from_name("q8_0");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("bf16, f32, int8 or fp8"));
}

}  // namespace
}  // namespace millrace::kernels

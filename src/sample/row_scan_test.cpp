#include "sample/row_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace millrace {
namespace {

const int64_t kSizes[] = {1, 7, 8, 63, 64, 65, 100, 2'048, 2'049, 5'001};

std::vector<float> random_row(int64_t n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) {
    x = normal(random);
  }
  return row;
}

std::vector<float> maxima_of(const RowScan& scan, const std::vector<float>& row) {
  std::vector<float> maxima((row.size() + 63) / 64);
  EXPECT_TRUE(scan.block_maxima(row.data(), static_cast<int64_t>(row.size()), maxima.data()));
  return maxima;
}

std::vector<const RowScan*> available_scans() {
  std::vector<const RowScan*> scans;
  for (const kernels::Isa isa : kernels::kAllIsas) {
    if (kernels::isa_is_available(isa)) scans.push_back(&row_scan(isa));
  }
  return scans;
}

TEST(RowScan, block_maxima_are_the_maxima_of_64_logits) {
  for (const int64_t n : kSizes) {
    const std::vector<float> row = random_row(n, 5, 1);
    const std::vector<float> maxima = maxima_of(kRowScanPortable, row);
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_LE(row[i], maxima[i / 64]);
    }
    for (size_t b = 0; b < maxima.size(); ++b) {
      const auto begin = row.begin() + static_cast<int64_t>(b * 64);
      const auto end = row.begin() + std::min<int64_t>(n, static_cast<int64_t>(b * 64 + 64));
      EXPECT_EQ(maxima[b], *std::max_element(begin, end));
    }
  }
}

TEST(RowScan, pair_maxima_are_those_of_two_and_notice_nan) {
  for (const int64_t n : kSizes) {
    std::vector<float> pairs = random_row(2 * n, 5, 8);
    for (const RowScan* scan : available_scans()) {
      std::vector<float> maxima(static_cast<size_t>(n));
      EXPECT_TRUE(scan->pair_maxima(pairs.data(), n, maxima.data()));
      for (size_t i = 0; i < maxima.size(); ++i) {
        EXPECT_EQ(maxima[i], std::max(pairs[2 * i], pairs[2 * i + 1]));
      }
      for (const size_t at : {size_t{0}, pairs.size() / 2, pairs.size() - 1}) {
        const float good = std::exchange(pairs[at], std::numeric_limits<float>::quiet_NaN());
        EXPECT_FALSE(scan->pair_maxima(pairs.data(), n, maxima.data()));
        pairs[at] = good;
      }
    }
  }
}

TEST(RowScan, block_maxima_notices_every_nan_and_infinity) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> row = random_row(205, 5, 2);
    std::vector<float> maxima(4);
    for (float& x : row) {
      const float good = x;
      x = bad;
      EXPECT_FALSE(kRowScanPortable.block_maxima(row.data(), 205, maxima.data()));
      if (kernels::isa_is_available(kernels::Isa::kAvx2)) {
        EXPECT_FALSE(kRowScanAvx2.block_maxima(row.data(), 205, maxima.data()));
      }
      x = good;
    }
    EXPECT_TRUE(kRowScanPortable.block_maxima(row.data(), 205, maxima.data()));
  }
}

TEST(RowScan, sum_of_weights_is_exact_to_float_rounding) {
  for (const int64_t n : kSizes) {
    for (const float spread : {0.1F, 3.0F, 20.0F}) {
      std::vector<float> row = random_row(n, spread, 3);
      const std::vector<float> maxima = maxima_of(kRowScanPortable, row);
      const float largest = *std::max_element(maxima.begin(), maxima.end());
      if (row.back() < largest) {
        row.back() = -std::numeric_limits<float>::infinity();
      }
      for (const float temperature : {0.2F, 1.0F, 7.0F}) {
        double expected = 0;
        for (const float x : row) {
          expected += std::exp((double{x} - largest) / temperature);
        }
        const double sum = kRowScanPortable.sum_of_weights(
            row.data(), n, maxima.data(), {.largest = largest, .inverse = 1 / temperature});
        EXPECT_NEAR(sum / expected, 1, 1e-6);
      }
    }
  }
}

TEST(RowScan, at_least_finds_the_tokens_from_a_logit_on) {
  for (const int64_t n : kSizes) {
    std::vector<float> row = random_row(n, 3, 6);
    if (n > 1) row.back() = -std::numeric_limits<float>::infinity();
    for (const float least : {-std::numeric_limits<float>::max(), row[0], 4.0F, 100.0F}) {
      std::vector<TokenId> expected;
      for (TokenId token = 0; token < n; ++token) {
        if (row[static_cast<size_t>(token)] >= least) expected.push_back(token);
      }
      for (const RowScan* scan : available_scans()) {
        std::vector<TokenId> found(row.size());
        found.resize(static_cast<size_t>(scan->at_least(row.data(), 0, n, least, found.data())));
        EXPECT_EQ(found, expected) << scan->name << " n " << n << " least " << least;
      }
    }
  }
}

TEST(RowScan, contenders_hold_every_token_and_every_block_that_reaches_the_score) {
  const int64_t n = 20'000;
  const std::vector<float> row = random_row(n, 3, 4);
  const std::vector<float> maxima = maxima_of(kRowScanPortable, row);
  const float largest = *std::max_element(row.begin(), row.end());
  const ScanTemperature t{.largest = largest, .inverse = 1};
  std::vector<TokenId> found(n);
  const auto contenders =
      [&](const std::vector<float>& values, NoiseKey key, auto stream, auto scale) {
        const int64_t n_found = kRowScanPortable.contenders(values.data(),
                                                            0,
                                                            std::ssize(values),
                                                            t,
                                                            key,
                                                            stream,
                                                            static_cast<float>(scale),
                                                            found.data());
        return std::set<int64_t>(found.begin(), found.begin() + n_found);
      };
  size_t n_winners = 0;
  size_t n_tokens = 0;
  size_t n_blocks = 0;
  double n_blocks_expected = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const NoiseKey key{.seed = seed, .position = 3};
    const double score = largest + 4.0;
    const double scale = std::exp(largest - score) * 1.0001;
    const std::set<int64_t> tokens = contenders(row, key, kTokenHigh, scale);
    const std::set<int64_t> blocks = contenders(maxima, key, kBlockHigh, kNoiseBlock * scale);
    n_tokens += tokens.size();
    n_blocks += blocks.size();
    for (int64_t block = 0; block < std::ssize(maxima); ++block) {
      const BlockNoise noise = block_noise(key, block);
      const double weight = std::exp(maxima[static_cast<size_t>(block)] - largest);
      n_blocks_expected += std::min(1.0, kNoiseBlock * weight * scale);
      for (int64_t i = block * kNoiseBlock; i < std::min(n, (block + 1) * kNoiseBlock); ++i) {
        const auto token = static_cast<TokenId>(i);
        if (row[static_cast<size_t>(token)] + gumbel(key, noise, token) >= score) {
          ++n_winners;
          ASSERT_TRUE(blocks.contains(block)) << token;
          ASSERT_TRUE(tokens.contains(token) || noise.first_token == token) << token;
        }
      }
    }
  }
  // The tests by the high word are sharp.
  EXPECT_GT(n_winners, 50U);
  EXPECT_LT(n_tokens, 2 * n_winners);
  EXPECT_NEAR(static_cast<double>(n_blocks), n_blocks_expected, 4 * std::sqrt(n_blocks_expected));
}

TEST(RowScan, avx2_equals_portable_bit_for_bit) {
  if (!kernels::isa_is_available(kernels::Isa::kAvx2)) {
    GTEST_SKIP() << "this CPU has no AVX2";
  }
  for (const int64_t n : kSizes) {
    for (const float spread : {0.5F, 4.0F, 50.0F}) {
      const std::vector<float> row = random_row(n, spread, 5);
      const std::vector<float> maxima = maxima_of(kRowScanPortable, row);
      EXPECT_EQ(maxima, maxima_of(kRowScanAvx2, row));
      const ScanTemperature t{.largest = *std::max_element(maxima.begin(), maxima.end()),
                              .inverse = 1 / 0.7F};
      EXPECT_EQ(kRowScanPortable.sum_of_weights(row.data(), n, maxima.data(), t),
                kRowScanAvx2.sum_of_weights(row.data(), n, maxima.data(), t));
      std::vector<TokenId> a(row.size());
      std::vector<TokenId> b(row.size());
      const NoiseKey key{.seed = 0x123456789abcdef0, .position = 0x100000002};
      for (const float scale : {0.01F, 1.0F, 30.0F}) {
        for (const uint32_t stream : {kTokenHigh, kBlockHigh}) {
          const auto found = [&](const RowScan& scan, std::vector<TokenId>& room) {
            const int64_t n_found =
                scan.contenders(row.data(), 0, n, t, key, stream, scale, room.data());
            return std::vector<TokenId>(room.begin(), room.begin() + n_found);
          };
          EXPECT_EQ(found(kRowScanPortable, a), found(kRowScanAvx2, b));
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace

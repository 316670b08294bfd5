#include "sample/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace millrace {
namespace {

// Vectors of the Random123 distribution for philox4x32 with 10 rounds.
TEST(Noise, philox_gives_the_published_vectors) {
  EXPECT_EQ(philox4x32(0, {0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = ~uint32_t{0};
  EXPECT_EQ(philox4x32(~uint64_t{0}, {ones, ones, ones, ones}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Noise, stays_within_the_stated_span) {
  const double highest = BlockNoise{exponential(~uint32_t{0}, ~uint32_t{0}) / 64, 0}.largest();
  const double lowest = -std::log(exponential(0, 0) / 64 + exponential(0, 0));
  EXPECT_NEAR(lowest, -3.6193, 1e-3);
  EXPECT_NEAR(highest, 40.8957, 1e-3);
  EXPECT_LT(highest - lowest, kNoiseSpan);
  EXPECT_GT(highest - lowest, kNoiseSpan - 0.02);
}

TEST(Noise, the_high_word_alone_bounds_an_arrival) {
  for (uint32_t high : {0U, 1U, 1U << 31, ~0U - 1000, ~0U - 1}) {
    const double bound = least_winning_weight(high);
    EXPECT_GE(exponential(high, ~uint32_t{0}), bound);
    EXPECT_GE(exponential(high, 0), bound);
  }
  EXPECT_EQ(least_winning_weight(~uint32_t{0}), 0);  // no bound: always a contender
}

TEST(Noise, no_token_of_a_block_has_more_than_its_first) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const NoiseKey key{.seed = seed, .position = 9};
    for (const int64_t block : {0, 1, 37, 2'373}) {
      const BlockNoise noise = block_noise(key, block);
      ASSERT_EQ(noise.first_token / kNoiseBlock, block);
      EXPECT_EQ(gumbel(key, noise.first_token), noise.largest());
      for (TokenId i = 0; i < kNoiseBlock; ++i) {
        const auto token = static_cast<TokenId>(block * kNoiseBlock + i);
        EXPECT_LE(gumbel(key, token), noise.largest());
        EXPECT_EQ(gumbel(key, token), gumbel(key, noise, token));
      }
    }
  }
}

// Arrivals exp(-G) of single tokens, of the first of any set and of pairs, in one block and across
// two, against those of independent exponential times.
TEST(Noise, is_independent_gumbel_noise_within_blocks_and_across_them) {
  constexpr int kDraws = 40'000;
  const std::vector<std::vector<TokenId>> sets = {{0},
                                                  {63},
                                                  {64},
                                                  {5, 6},
                                                  {5, 70},
                                                  {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                                                  {60, 61, 62, 63, 64, 65, 66}};
  for (const std::vector<TokenId>& tokens : sets) {
    std::vector<double> firsts;
    std::vector<int> n_first(tokens.size());
    double sum_of_products = 0;
    for (uint64_t seed = 0; seed < kDraws; ++seed) {
      std::vector<double> times;
      for (const TokenId token : tokens) {
        times.push_back(std::exp(-gumbel({.seed = seed, .position = 1}, token)));
      }
      const auto first = std::ranges::min_element(times);
      ++n_first[static_cast<size_t>(first - times.begin())];
      firsts.push_back(*first);
      sum_of_products += (times.front() - 1) * (times.back() - 1);
    }
    // Kolmogorov and Smirnov: the first of n is exponential with mean 1/n.
    std::ranges::sort(firsts);
    double distance = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double share =
          1 - std::exp(-firsts[static_cast<size_t>(i)] * static_cast<double>(tokens.size()));
      distance = std::max({distance, share - i / double{kDraws}, (i + 1) / double{kDraws} - share});
    }
    EXPECT_LT(distance, 1.95 / std::sqrt(kDraws)) << tokens.size();  // its 0.999 quantile
    const double p = 1.0 / static_cast<double>(tokens.size());
    for (const int n : n_first) {
      EXPECT_NEAR(n, kDraws * p, 4 * std::sqrt(kDraws * p * (1 - p)) + 1e-9);
    }
    if (tokens.size() > 1) {  // no correlation; the product has variance 1
      EXPECT_NEAR(sum_of_products / kDraws, 0, 4 / std::sqrt(kDraws));
    }
  }
}

TEST(Noise, tokens_positions_and_seeds_have_their_own_bits) {
  std::set<uint32_t> seen;
  for (TokenId token = 0; token < 2'000; ++token) {
    for (uint32_t stream : {kTokenHigh, kTokenLow, kBlockHigh, kBlockLow}) {
      seen.insert(noise_bits({.seed = 1, .position = 1}, token, stream));
      seen.insert(noise_bits({.seed = 1, .position = 1ULL << 40}, token, stream));
      seen.insert(noise_bits({.seed = 1ULL << 50, .position = 1}, token, stream));
    }
  }
  EXPECT_GT(seen.size(), 23'990U);  // 24,000 draws of 32 bits collide about 0.07 times
}

}  // namespace
}  // namespace millrace

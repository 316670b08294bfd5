#include "sample/noise.h"

#include <gtest/gtest.h>

#include <set>

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
  const double lowest = gumbel(0, 0);
  const double highest = gumbel(~uint32_t{0}, ~uint32_t{0});
  EXPECT_NEAR(lowest, -3.6038, 1e-3);
  EXPECT_NEAR(highest, 36.7368, 1e-3);
  EXPECT_LT(highest - lowest, kNoiseSpan);
  EXPECT_GT(highest - lowest, kNoiseSpan - 0.02);
}

TEST(Noise, the_high_word_alone_bounds_it) {
  for (uint32_t high : {0U, 1U, 1U << 31, ~0U - 1000, ~0U - 1}) {
    const double bound = -std::log(least_winning_weight(high));
    EXPECT_LE(gumbel(high, ~uint32_t{0}), bound);
    EXPECT_LE(gumbel(high, 0), bound);
  }
  EXPECT_EQ(least_winning_weight(~uint32_t{0}), 0);  // no bound: always a contender
}

TEST(Noise, tokens_positions_and_seeds_have_their_own_bits) {
  std::set<uint32_t> seen;
  for (TokenId token = 0; token < 2'000; ++token) {
    for (uint32_t half : {kNoiseHigh, kNoiseLow}) {
      seen.insert(noise_bits({.seed = 1, .position = 1}, token, half));
      seen.insert(noise_bits({.seed = 1, .position = 1ULL << 40}, token, half));
      seen.insert(noise_bits({.seed = 1ULL << 50, .position = 1}, token, half));
    }
  }
  EXPECT_GT(seen.size(), 11'990U);  // 12,000 draws of 32 bits collide about 0.02 times
}

}  // namespace
}  // namespace millrace

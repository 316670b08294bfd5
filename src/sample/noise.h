#pragma once
// G(seed, position, token): the Gumbel noise of the draw, a pure function of its arguments. The
// token with the largest tempered logit + G is a sample of the softmax (Gumbel-max), so batch,
// chunking, threads, preemption and speculation cannot change what is drawn. Any thread.
//
// The 64 random bits of a token come from two Philox blocks that differ in the last counter word:
// the high half decides for nearly all tokens, the low half is computed for the few contenders.
// 32 tokens share eight blocks so that a vector of eight blocks holds eight neighbours per word:
// token t takes word (t / 8) % 4 of block 8 * (t / 32) + t % 8.

#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "base/types.h"

namespace millrace {

struct NoiseKey {
  uint64_t seed = 0;
  uint64_t position = 0;  // of the token to draw within its sequence
};

inline constexpr uint32_t kNoiseHigh = 0;
inline constexpr uint32_t kNoiseLow = 1;

inline uint32_t noise_bits(NoiseKey key, TokenId token, uint32_t half) {
  const auto t = static_cast<uint32_t>(token);
  const PhiloxBlock block = philox4x32(key.seed,
                                       {static_cast<uint32_t>(key.position),
                                        static_cast<uint32_t>(key.position >> 32),
                                        8 * (t / 32) + t % 8,
                                        half});
  return block[(t / 8) % 4];
}

// The noise from the 52 high bits of (high, low): u lies in [2^-53, 1 - 2^-53].
inline double gumbel(uint32_t high, uint32_t low) {
  return -std::log(-std::log(open_unit_interval(high, low)));
}

// A token that lies more than kNoiseSpan nats below the best one cannot win, whatever the seed.
// u >= 2^-53 gives G >= -ln(53 ln 2) = -3.6038; u <= 1 - 2^-53 gives, with -ln u >= 1 - u,
// G <= 53 ln 2 = 36.7368. The difference is 40.3406. (With 32-bit noise the span would be 26 nats,
// but tokens rarer than 2^-32 could then never be drawn although a large vocabulary has many.)
inline constexpr double kNoiseSpan = 40.35;

// With high alone: u < (high + 1) / 2^32, so 1 - u > (2^32 - 1 - high) / 2^32, and since
// G <= -ln(1 - u), a token whose weight exp(z - z_max) is below
// exp(best - z_max) * (2^32 - 1 - high) / 2^32 loses against a score of best. This is the test
// that spares nearly every token its logarithms.
inline double least_winning_weight(uint32_t high) {
  return static_cast<double>(~high) * 0x1p-32;
}

}  // namespace millrace

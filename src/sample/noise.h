#pragma once
// G(seed, position, token): the Gumbel noise of the draw, a pure function of its arguments. The
// token with the largest tempered logit + G is a sample of the softmax (Gumbel-max), so batch,
// chunking, threads, preemption and speculation cannot change what is drawn. Any thread.
//
// The noise of different tokens is independent, but it is made in blocks of 64, so that a block
// none of whose tokens can win costs one random word instead of 64. G = -ln T with T exponential
// with mean 1: the time at which a token arrives. The first arrival of 64 is exponential with mean
// 1/64 and equally likely any of them, and behind it the others arrive as if they began then, for
// an exponential distribution has no memory. So a block draws when its first token arrives and
// which one that is, and each other token how much later it comes. The largest noise of the block
// is that of its first arrival, known without looking at its tokens. A last block that is cut off
// draws for all 64 nevertheless: the noise of a token does not depend on how many tokens there are.
//
// Random words are Philox blocks with counter (position, word group, stream); the high half of the
// 64 bits of a value decides for nearly all blocks and tokens, the low half is computed for the few
// that it lets pass. 32 values share eight Philox blocks so that a vector of eight blocks holds
// eight neighbours per word: value i takes word (i / 8) % 4 of block 8 * (i / 32) + i % 8.

#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "base/types.h"

namespace millrace {

struct NoiseKey {
  uint64_t seed = 0;
  uint64_t position = 0;  // of the token to draw within its sequence
};

inline constexpr int64_t kNoiseBlock = 64;  // tokens

inline constexpr uint32_t kTokenHigh = 0;  // streams
inline constexpr uint32_t kTokenLow = 1;
inline constexpr uint32_t kBlockHigh = 2;
inline constexpr uint32_t kBlockLow = 3;

// Of a token, or of a block of tokens.
inline uint32_t noise_bits(NoiseKey key, int64_t index, uint32_t stream) {
  const auto i = static_cast<uint32_t>(index);
  const PhiloxBlock block = philox4x32(key.seed,
                                       {static_cast<uint32_t>(key.position),
                                        static_cast<uint32_t>(key.position >> 32),
                                        8 * (i / 32) + i % 8,
                                        stream});
  return block[(i / 8) % 4];
}

// From the 52 high bits of (high, low): -ln u with u in [2^-53, 1 - 2^-53].
inline double exponential(uint32_t high, uint32_t low) {
  return -std::log(open_unit_interval(high, low));
}

struct BlockNoise {
  double first_arrival = 0;
  TokenId first_token = 0;

  // No token of the block has more.
  double largest() const { return -std::log(first_arrival); }
};

// high: noise_bits(key, block, kBlockHigh).
inline BlockNoise block_noise(NoiseKey key, int64_t block, uint32_t high) {
  const uint32_t low = noise_bits(key, block, kBlockLow);
  // The low bits are those that exponential() does not use.
  return {.first_arrival = exponential(high, low) / kNoiseBlock,
          .first_token = static_cast<TokenId>(block * kNoiseBlock + low % kNoiseBlock)};
}

inline BlockNoise block_noise(NoiseKey key, int64_t block) {
  return block_noise(key, block, noise_bits(key, block, kBlockHigh));
}

// of: the noise of the token's block.
inline double gumbel(NoiseKey key, const BlockNoise& of, TokenId token) {
  if (token == of.first_token) {
    return of.largest();
  }
  const uint32_t high = noise_bits(key, token, kTokenHigh);
  const uint32_t low = noise_bits(key, token, kTokenLow);
  return -std::log(of.first_arrival + exponential(high, low));
}

inline double gumbel(NoiseKey key, TokenId token) {
  return gumbel(key, block_noise(key, token / kNoiseBlock), token);
}

// A token that lies more than kNoiseSpan nats below the best one cannot win, whatever the seed.
// u <= 1 - 2^-53 gives, with -ln u >= 1 - u, a first arrival of at least 2^-59: G <= 59 ln 2 =
// 40.8957. u >= 2^-53 gives an arrival of at most (1 + 1/64) 53 ln 2: G >= -3.6193. The difference
// is 44.5150. (With 32-bit noise the span would be 30 nats, but tokens rarer than 2^-32 could then
// never be drawn although a large vocabulary has many.)
inline constexpr double kNoiseSpan = 44.52;

// With the high word alone: u < (high + 1) / 2^32, so -ln u >= 1 - u > (2^32 - 1 - high) / 2^32. A
// token that is not the first of its block arrives no earlier than that, so it loses against a
// score of best if its weight exp(z - z_max) is below exp(best - z_max) times this; and a block
// loses whose largest weight is below a 64th of that, by the word of the block. This is the test
// that spares nearly all of them their logarithms.
inline double least_winning_weight(uint32_t high) {
  return static_cast<double>(~high) * 0x1p-32;
}

}  // namespace millrace

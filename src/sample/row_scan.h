#pragma once
// The passes over a whole row of logits, one set of functions per instruction set. All sets give
// bit-identical results: the arithmetic is elementwise IEEE in the same order, without FMA.

#include <cstdint>

#include "kernels/isa.h"
#include "sample/noise.h"

namespace millrace {

inline constexpr int64_t kScanBlock = kNoiseBlock;  // tokens that share one maximum

struct ScanTemperature {
  float largest = 0;  // the largest logit of the row
  float inverse = 1;  // 1 / temperature
};

struct RowScan {
  const char* name;

  // maxima[b] = largest of logits[64 b, 64 b + 64); false if any of the n logits is NaN or
  // infinite.
  bool (*block_maxima)(const float* logits, int64_t n, float* maxima);

  // maxima[b] = the larger of pairs[2 b] and pairs[2 b + 1], for n of them; false if any is NaN.
  bool (*pair_maxima)(const float* pairs, int64_t n, float* maxima);

  // Sum of exp((logit - largest) * inverse), float terms added up in double in a fixed order.
  // Blocks more than kNoiseSpan nats below the largest count as nothing; -inf does too.
  double (*sum_of_weights)(const float* logits, int64_t n, const float* maxima, ScanTemperature t);

  // Writes to tokens those of [begin, end) whose logit is at least `least`, a finite number.
  // tokens has room for end - begin. Returns how many.
  int64_t (*at_least)(
      const float* logits, int64_t begin, int64_t end, float least, TokenId* tokens);

  // Writes to indices those of [begin, end) that can reach a score given as
  // scale = exp(z_max - score) * (1 + slack): weight * scale >= least_winning_weight(high word of
  // the stream). For tokens, or with maxima in place of logits, kBlockHigh and 64 times the scale
  // for blocks. begin is a multiple of 32; indices has room for end - begin. Returns how many.
  int64_t (*contenders)(const float* logits,
                        int64_t begin,
                        int64_t end,
                        ScanTemperature t,
                        NoiseKey key,
                        uint32_t stream,
                        float scale,
                        TokenId* indices);
};

extern const RowScan kRowScanPortable;
extern const RowScan kRowScanAvx2;

// The passes for a machine that has the given instruction set.
const RowScan& row_scan(kernels::Isa isa);

}  // namespace millrace

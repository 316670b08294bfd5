// The passes of row_scan.h over eight-lane vectors, included once by each row_scan_<isa>.cpp, which
// defines F8, I8, max8() and philox_high8() before. No standard templates here: nothing of this
// file may become a weak symbol compiled for a newer CPU.

typedef double D8 __attribute__((vector_size(64)));

static inline __attribute__((always_inline)) F8 splat(float v) {
  return F8{v, v, v, v, v, v, v, v};
}

static inline __attribute__((always_inline)) F8 load8(const float* p) {
  F8 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

static inline __attribute__((always_inline)) float largest_lane(F8 v) {
  float best = v[0];
  for (int lane = 1; lane < 8; ++lane) {
    best = v[lane] > best ? v[lane] : best;
  }
  return best;
}

// 2^t for t <= 0, relative error below 2e-7 near 0 and 3e-6 at -58 (40 nats), from the rounding of
// t; below -126 it stays at about 1e-38. 2^f on [-0.5, 0.5] is 1 + f q(f) with q of degree 4 fitted
// to the least relative error, so 2^0 is exactly 1.
static inline __attribute__((always_inline)) F8 exp2_of_negative(F8 t) {
  t = max8(t, splat(-126.0F));
  const F8 magic = splat(12582912.0F);  // 1.5 * 2^23: rounds to an integer in the low bits
  const F8 shifted = t + magic;
  const F8 f = t - (shifted - magic);
  F8 p = splat(1.326472731e-3F);
  p = p * f + splat(9.671512991e-3F);
  p = p * f + splat(5.550733581e-2F);
  p = p * f + splat(2.402224243e-1F);
  p = p * f + splat(6.931470037e-1F);
  p = p * f + splat(1.0F);
  return (F8)((I8)p + ((I8)shifted << 23));
}

static bool block_maxima(const float* logits, int64_t n, float* maxima) {
  F8 poison = splat(0.0F);  // x * 0 is 0, or NaN for NaN and infinities
  float tail_poison = 0;
  int64_t block = 0;
  for (; (block + 1) * kScanBlock <= n; ++block) {
    const float* x = logits + block * kScanBlock;
    F8 best = load8(x);
    poison += best * splat(0.0F);
    for (int i = 8; i < kScanBlock; i += 8) {
      const F8 v = load8(x + i);
      poison += v * splat(0.0F);
      best = max8(best, v);
    }
    maxima[block] = largest_lane(best);
  }
  if (block * kScanBlock < n) {
    float best = logits[block * kScanBlock];
    for (int64_t i = block * kScanBlock; i < n; ++i) {
      tail_poison += logits[i] * 0.0F;
      best = logits[i] > best ? logits[i] : best;
    }
    maxima[block] = best;
  }
  for (int lane = 0; lane < 8; ++lane) {
    tail_poison += poison[lane];
  }
  return tail_poison == 0.0F;
}

// The count logits from p on, filled up with -inf in room when the row ends before.
static inline __attribute__((always_inline)) const float* padded(const float* p,
                                                                 int64_t left,
                                                                 int64_t count,
                                                                 float* room) {
  if (left >= count) {
    return p;
  }
  for (int64_t i = 0; i < count; ++i) {
    room[i] = i < left ? p[i] : -__builtin_inff();
  }
  return room;
}

// exp((x - largest) / temperature) for eight logits.
static inline __attribute__((always_inline)) F8 weights8(const float* p, F8 largest, F8 inverse) {
  return exp2_of_negative((load8(p) - largest) * inverse);
}

static double sum_of_weights(const float* logits,
                             int64_t n,
                             const float* maxima,
                             ScanTemperature t) {
  const F8 largest = splat(t.largest);
  const F8 inverse = splat(t.inverse * 1.44269504F);  // per log2 e
  D8 sums = {};
  for (int64_t begin = 0; begin < n; begin += kScanBlock) {
    if ((maxima[begin / kScanBlock] - t.largest) * t.inverse < (float)-kNoiseSpan) {
      continue;
    }
    float room[kScanBlock];
    const float* p = padded(logits + begin, n - begin, kScanBlock, room);
    F8 even = splat(0.0F);
    F8 odd = splat(0.0F);
    for (int i = 0; i < kScanBlock; i += 16) {
      even += weights8(p + i, largest, inverse);
      odd += weights8(p + i + 8, largest, inverse);
    }
    sums += __builtin_convertvector(even + odd, D8);
  }
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

static int64_t contenders(const float* logits,
                          int64_t begin,
                          int64_t end,
                          ScanTemperature t,
                          NoiseKey key,
                          float scale,
                          TokenId* tokens) {
  const F8 largest = splat(t.largest);
  const F8 inverse = splat(t.inverse * 1.44269504F);  // per log2 e
  int64_t n_found = 0;
  for (int64_t group = begin; group < end; group += 32) {
    I8 high[4];
    philox_high8(key, (uint32_t)(group / 32), high);
    float room[32];
    const float* p = padded(logits + group, end - group, 32, room);
    I8 can_win[4];
    for (int word = 0; word < 4; ++word) {
      // Half of 2^32 - 1 - high, so that it converts as a signed integer.
      const I8 least = ((~high[word]) >> 1) & 0x7FFFFFFF;
      const F8 needed = __builtin_convertvector(least, F8) * splat(0x1p-31F);
      can_win[word] = weights8(p + 8 * word, largest, inverse) * splat(scale) >= needed;
    }
    const I8 any = (can_win[0] | can_win[1]) | (can_win[2] | can_win[3]);
    typedef int64_t L4 __attribute__((vector_size(32)));
    const L4 wide = (L4)any;
    if (((wide[0] | wide[1]) | (wide[2] | wide[3])) == 0) {
      continue;
    }
    for (int64_t i = 0; i < 32 && group + i < end; ++i) {
      if (can_win[i / 8][i % 8] != 0) {
        tokens[n_found++] = (TokenId)(group + i);
      }
    }
  }
  return n_found;
}

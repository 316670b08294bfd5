// The passes of row_scan.h over eight-lane vectors, included once by each row_scan_<isa>.cpp, which
// defines F8, I8, max8() and philox8() before. No standard templates here: nothing of this
// file may become a weak symbol compiled for a newer CPU.

typedef float F4 __attribute__((vector_size(16)));
typedef double D4 __attribute__((vector_size(32)));

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

// Four registers that go through every step side by side: one alone waits for its own results.
struct F32 {
  F8 v[4];
};

#define MR_EACH4 _Pragma("GCC unroll 4") for (int i = 0; i < 4; ++i)

// p = p * f + c in each, without fma.
static inline __attribute__((always_inline)) void step4(F32& p, const F32& f, float c) {
  MR_EACH4 p.v[i] = p.v[i] * f.v[i];
  MR_EACH4 p.v[i] = p.v[i] + splat(c);
}

// 2^t for t <= 0, relative error below 2e-7 near 0 and 3e-6 at -65 (45 nats), from the rounding of
// t; below -126 it stays at about 1e-38. 2^f on [-0.5, 0.5] is 1 + f q(f) with q of degree 4 fitted
// to the least relative error, so 2^0 is exactly 1.
static inline __attribute__((always_inline)) void exp2_of_negative(F32& t) {
  const F8 magic = splat(12582912.0F);  // 1.5 * 2^23: rounds to an integer in the low bits
  F32 shifted;
  F32 f;
  F32 p;
  MR_EACH4 t.v[i] = max8(t.v[i], splat(-126.0F));
  MR_EACH4 shifted.v[i] = t.v[i] + magic;
  MR_EACH4 f.v[i] = shifted.v[i] - magic;
  MR_EACH4 f.v[i] = t.v[i] - f.v[i];
  MR_EACH4 p.v[i] = splat(1.326472731e-3F);
  step4(p, f, 9.671512991e-3F);
  step4(p, f, 5.550733581e-2F);
  step4(p, f, 2.402224243e-1F);
  step4(p, f, 6.931470037e-1F);
  step4(p, f, 1.0F);
  MR_EACH4 t.v[i] = (F8)((I8)p.v[i] + ((I8)shifted.v[i] << 23));
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

static bool pair_maxima(const float* pairs, int64_t n, float* maxima) {
  F4 poison = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    F4 low;
    F4 high;
    __builtin_memcpy(&low, pairs + 2 * i, sizeof low);
    __builtin_memcpy(&high, pairs + 2 * i + 4, sizeof high);
    const F4 even = __builtin_shufflevector(low, high, 0, 2, 4, 6);
    const F4 odd = __builtin_shufflevector(low, high, 1, 3, 5, 7);
    poison += even * 0.0F;
    poison += odd * 0.0F;
    const F4 larger = even > odd ? even : odd;
    __builtin_memcpy(maxima + i, &larger, sizeof larger);
  }
  float tail_poison = 0;
  for (; i < n; ++i) {
    tail_poison += pairs[2 * i] * 0.0F + pairs[2 * i + 1] * 0.0F;
    maxima[i] = pairs[2 * i] > pairs[2 * i + 1] ? pairs[2 * i] : pairs[2 * i + 1];
  }
  for (int lane = 0; lane < 4; ++lane) {
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

// exp((x - largest) / temperature) for 32 logits.
static inline __attribute__((always_inline)) F32 weights32(const float* p, F8 largest, F8 inverse) {
  F32 t;
  MR_EACH4 t.v[i] = load8(p + 8 * i) - largest;
  MR_EACH4 t.v[i] = t.v[i] * inverse;
  exp2_of_negative(t);
  return t;
}

static double sum_of_weights(const float* logits,
                             int64_t n,
                             const float* maxima,
                             ScanTemperature t) {
  const F8 largest = splat(t.largest);
  const F8 inverse = splat(t.inverse * 1.44269504F);  // per log2 e
  // Two registers rather than one of 64 bytes, which gcc keeps in memory: twice the time.
  D4 low_sums = {};
  D4 high_sums = {};
  for (int64_t begin = 0; begin < n; begin += kScanBlock) {
    if ((maxima[begin / kScanBlock] - t.largest) * t.inverse < (float)-kNoiseSpan) {
      continue;
    }
    float room[kScanBlock];
    const float* p = padded(logits + begin, n - begin, kScanBlock, room);
    F8 even = splat(0.0F);
    F8 odd = splat(0.0F);
    for (int i = 0; i < kScanBlock; i += 32) {
      const F32 weights = weights32(p + i, largest, inverse);
      even += weights.v[0];
      odd += weights.v[1];
      even += weights.v[2];
      odd += weights.v[3];
    }
    const F8 sums = even + odd;
    const F4 low = {sums[0], sums[1], sums[2], sums[3]};
    const F4 high = {sums[4], sums[5], sums[6], sums[7]};
    low_sums += __builtin_convertvector(low, D4);
    high_sums += __builtin_convertvector(high, D4);
  }
  const D4 sums = low_sums + high_sums;
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static inline __attribute__((always_inline)) int is_any(I8 mask) {
  typedef int64_t L4 __attribute__((vector_size(32)));
  const L4 wide = (L4)mask;
  return ((wide[0] | wide[1]) | (wide[2] | wide[3])) != 0;
}

static int64_t at_least(
    const float* logits, int64_t begin, int64_t end, float least, TokenId* tokens) {
  int64_t n_found = 0;
  for (int64_t group = begin; group < end; group += 16) {
    float room[16];
    const float* p = padded(logits + group, end - group, 16, room);
    const I8 first = load8(p) >= splat(least);
    const I8 second = load8(p + 8) >= splat(least);
    if (!is_any(first | second)) continue;
    for (int i = 0; i < 16; ++i) {
      if (p[i] >= least) tokens[n_found++] = (TokenId)(group + i);
    }
  }
  return n_found;
}

static int64_t contenders(const float* logits,
                          int64_t begin,
                          int64_t end,
                          ScanTemperature t,
                          NoiseKey key,
                          uint32_t stream,
                          float scale,
                          TokenId* indices) {
  const F8 largest = splat(t.largest);
  const F8 inverse = splat(t.inverse * 1.44269504F);  // per log2 e
  int64_t n_found = 0;
  for (int64_t group = begin; group < end; group += 32) {
    I8 high[4];
    philox8(key, stream, (uint32_t)(group / 32), high);
    float room[32];
    const float* p = padded(logits + group, end - group, 32, room);
    const F32 weights = weights32(p, largest, inverse);
    I8 can_win[4];
    for (int word = 0; word < 4; ++word) {
      // Half of 2^32 - 1 - high, so that it converts as a signed integer.
      const I8 least = ((~high[word]) >> 1) & 0x7FFFFFFF;
      const F8 needed = __builtin_convertvector(least, F8) * splat(0x1p-31F);
      can_win[word] = weights.v[word] * splat(scale) >= needed;
    }
    if (!is_any((can_win[0] | can_win[1]) | (can_win[2] | can_win[3]))) {
      continue;
    }
    for (int64_t i = 0; i < 32 && group + i < end; ++i) {
      if (can_win[i / 8][i % 8] != 0) {
        indices[n_found++] = (TokenId)(group + i);
      }
    }
  }
  return n_found;
}

#pragma once
// The registers that all kernels are written over, as portable code: the contract of isa_avx2.h and
// isa_avx512.h, the tier for other processors, and in tests, at 8 and 16 lanes, a stand-in for
// both.

#include <stdint.h>
#include <string.h>

#include "kernels/cpu/inline.h"
#include "tensor/half.h"

namespace millrace::kernels {
namespace {

template <int kLanes>
struct Scalar {
  static constexpr int kWidth = kLanes;
  // Activation rows of a matrix product that go through the registers together.
  static constexpr int kTileRows = kLanes == 16 ? 3 : 2;
  // How far ahead of its use a panel's memory is asked for (linear_driver.inl.h), measured.
  static constexpr int kBytesAhead = 1024;
  static constexpr int kPlanesAhead = 2048;
  struct F {
    float v[kLanes];
  };
  struct I {
    uint32_t v[kLanes];  // two's complement; unsigned so that overflow wraps
  };

  template <class Body>
  MR_INLINE static F make(const Body& body) {
    F r;
    for (int i = 0; i < kLanes; ++i) {
      r.v[i] = body(i);
    }
    return r;
  }
  template <class Body>
  MR_INLINE static I make_i(const Body& body) {
    I r;
    for (int i = 0; i < kLanes; ++i) {
      r.v[i] = static_cast<uint32_t>(body(i));
    }
    return r;
  }

  // Float registers.
  MR_INLINE static F zero() { return set1(0.0f); }
  MR_INLINE static F set1(float x) {
    return make([&](int) { return x; });
  }
  MR_INLINE static F load(const float* p) {
    return make([&](int i) { return p[i]; });
  }
  MR_INLINE static void store(float* p, F a) { memcpy(p, a.v, sizeof(a.v)); }
  // The first n lanes, 0 <= n; the others are zero and their memory is not touched.
  MR_INLINE static F load_partial(const float* p, int n) {
    return make([&](int i) { return i < n ? p[i] : 0.0f; });
  }
  MR_INLINE static void store_partial(float* p, F a, int n) {
    for (int i = 0; i < kLanes && i < n; ++i) {
      p[i] = a.v[i];
    }
  }
  MR_INLINE static F add(F a, F b) {
    return make([&](int i) { return a.v[i] + b.v[i]; });
  }
  MR_INLINE static F sub(F a, F b) {
    return make([&](int i) { return a.v[i] - b.v[i]; });
  }
  MR_INLINE static F mul(F a, F b) {
    return make([&](int i) { return a.v[i] * b.v[i]; });
  }
  MR_INLINE static F div(F a, F b) {
    return make([&](int i) { return a.v[i] / b.v[i]; });
  }
  MR_INLINE static F sqrt(F a) {
    return make([&](int i) { return __builtin_sqrtf(a.v[i]); });
  }
  // a * b + c, and c - a * b. Rounded once where the tier has the instruction, twice here.
  MR_INLINE static F fma(F a, F b, F c) {
    return make([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  MR_INLINE static F fnma(F a, F b, F c) {
    return make([&](int i) { return c.v[i] - a.v[i] * b.v[i]; });
  }
  // When a lane is not a number the second operand is the result.
  MR_INLINE static F max(F a, F b) {
    return make([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  MR_INLINE static F min(F a, F b) {
    return make([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  MR_INLINE static F abs(F a) {
    return make([&](int i) { return __builtin_fabsf(a.v[i]); });
  }
  // To the nearest integer, ties to even. Exact for magnitudes below 2^22, which is all we need.
  MR_INLINE static F round(F a) {
    return make([&](int i) {
      const float magic = __builtin_copysignf(12582912.0f, a.v[i]);
      return __builtin_fabsf(a.v[i]) < 4194304.0f ? (a.v[i] + magic) - magic : a.v[i];
    });
  }
  // Per lane: a < b ? yes : no, false when one is not a number.
  MR_INLINE static F select_less(F a, F b, F yes, F no) {
    return make([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
  }
  // Of all lanes, halving: lane i with lane i + n/2, and so on.
  MR_INLINE static float sum(F a) {
    for (int n = kLanes / 2; n > 0; n /= 2) {
      for (int i = 0; i < n; ++i) {
        a.v[i] += a.v[i + n];
      }
    }
    return a.v[0];
  }
  MR_INLINE static float max_lane(F a) {
    float r = a.v[0];
    for (int i = 1; i < kLanes; ++i) {
      r = a.v[i] > r ? a.v[i] : r;
    }
    return r;
  }

  // Integer registers.
  MR_INLINE static I zero_i() { return set1_i(0); }
  MR_INLINE static I set1_i(int32_t x) {
    return make_i([&](int) { return x; });
  }
  MR_INLINE static I load_i(const void* p) {
    I r;
    memcpy(r.v, p, sizeof(r.v));
    return r;
  }
  MR_INLINE static void store_i(void* p, I a) { memcpy(p, a.v, sizeof(a.v)); }
  // The 32 bits at p in every lane.
  MR_INLINE static I broadcast(const void* p) {
    int32_t x;
    memcpy(&x, p, sizeof(x));
    return set1_i(x);
  }
  MR_INLINE static I add_i(I a, I b) {
    return make_i([&](int i) { return a.v[i] + b.v[i]; });
  }
  MR_INLINE static I sub_i(I a, I b) {
    return make_i([&](int i) { return a.v[i] - b.v[i]; });
  }
  MR_INLINE static I and_i(I a, I b) {
    return make_i([&](int i) { return a.v[i] & b.v[i]; });
  }
  MR_INLINE static I or_i(I a, I b) {
    return make_i([&](int i) { return a.v[i] | b.v[i]; });
  }
  template <int kBits>
  MR_INLINE static I shift_left(I a) {
    return make_i([&](int i) { return a.v[i] << kBits; });
  }
  // Zeros come in from the left.
  template <int kBits>
  MR_INLINE static I shift_right(I a) {
    return make_i([&](int i) { return a.v[i] >> kBits; });
  }
  MR_INLINE static F to_float(I a) {
    return make([&](int i) { return static_cast<float>(static_cast<int32_t>(a.v[i])); });
  }
  // To the nearest integer, ties to even; for magnitudes below 2^22.
  MR_INLINE static I to_int(F a) {
    const F rounded = round(a);
    return make_i([&](int i) { return static_cast<int32_t>(rounded.v[i]); });
  }
  MR_INLINE static int32_t sum_i(I a) {
    uint32_t r = 0;
    for (int i = 0; i < kLanes; ++i) {
      r += a.v[i];
    }
    return static_cast<int32_t>(r);
  }
  MR_INLINE static F as_float(I a) {
    F r;
    memcpy(r.v, a.v, sizeof(r.v));
    return r;
  }
  MR_INLINE static I as_int(F a) {
    I r;
    memcpy(r.v, a.v, sizeof(r.v));
    return r;
  }

  // Narrow memory formats, one element a lane.
  MR_INLINE static I load_u8(const uint8_t* p) {
    return make_i([&](int i) { return p[i]; });
  }
  MR_INLINE static I load_i8(const uint8_t* p) {
    return make_i([&](int i) { return static_cast<int32_t>(static_cast<int8_t>(p[i])); });
  }
  MR_INLINE static F load_f16(const void* p) {
    return make([&](int i) {
      uint16_t half;
      memcpy(&half, static_cast<const char*>(p) + 2 * i, sizeof(half));
      return f16_to_f32(half);
    });
  }
  // An e4m3 over 256.
  MR_INLINE static F load_e4m3(const uint8_t* p) {
    return make([&](int i) {
      return f16_to_f32(static_cast<uint16_t>((p[i] & 0x80) << 8 | (p[i] & 0x7f) << 7));
    });
  }
  // As load_e4m3, of the codes [2 kLanes][2] at p: the first and the second of each pair.
  MR_INLINE static void load_e4m3_pairs(const uint8_t* p, F (&first)[2], F (&second)[2]) {
    for (int half = 0; half < 2; ++half) {
      const uint8_t* from = p + 2 * kLanes * half;
      first[half] = make([&](int i) { return e4m3_over_256(from[2 * i]); });
      second[half] = make([&](int i) { return e4m3_over_256(from[2 * i + 1]); });
    }
  }
  MR_INLINE static F load_bf16(const void* p) {
    return as_float(make_i([&](int i) {
      uint16_t half;
      memcpy(&half, static_cast<const char*>(p) + 2 * i, sizeof(half));
      return uint32_t{half} << 16;
    }));
  }
  // Rounds to nearest even; a NaN stays one.
  MR_INLINE static void store_bf16(void* p, F a) {
    const I bits = bf16_bits(a);
    for (int i = 0; i < kLanes; ++i) {
      const uint16_t half = static_cast<uint16_t>(bits.v[i]);
      memcpy(static_cast<char*>(p) + 2 * i, &half, sizeof(half));
    }
  }
  // Lanes within the range of the type.
  MR_INLINE static void store_i8(int8_t* p, I a) {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = static_cast<int8_t>(a.v[i]);
    }
  }
  MR_INLINE static void store_i16(int16_t* p, I a) {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = static_cast<int16_t>(a.v[i]);
    }
  }
  // As store_i16, with each four lanes in the order 0 2 1 3.
  MR_INLINE static void store_i16_even_odd(int16_t* p, I a) {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = static_cast<int16_t>(a.v[(i & ~3) | (i & 1) << 1 | (i & 2) >> 1]);
    }
  }
  // The bf16 in the low and in the high half of each lane.
  MR_INLINE static F low_bf16(I pairs) { return as_float(shift_left<16>(pairs)); }
  MR_INLINE static F high_bf16(I pairs) {
    return as_float(make_i([&](int i) { return pairs.v[i] & 0xffff0000u; }));
  }
  // The rounded bf16 in the low half of each lane, zero above.
  MR_INLINE static I bf16_bits(F a) {
    const I bits = as_int(a);
    return make_i([&](int i) {
      const uint32_t x = bits.v[i];
      const bool is_nan = (x & 0x7fffffffu) > 0x7f800000u;
      return is_nan ? (x | 0x400000u) >> 16 : (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
    });
  }

  // Dot products of 16-bit pairs: lane += a.low * b.low + a.high * b.high.
  MR_INLINE static I dot2(I sum, I a, I b) {
    return make_i([&](int i) {
      return sum.v[i] + static_cast<uint32_t>(half(a.v[i], 0) * half(b.v[i], 0)) +
             static_cast<uint32_t>(half(a.v[i], 1) * half(b.v[i], 1));
    });
  }
  // Even and odd bytes of four unsigned codes as 16-bit pairs.
  MR_INLINE static I even_bytes(I codes) {
    return make_i([&](int i) { return codes.v[i] & 0x00ff00ffu; });
  }
  MR_INLINE static I odd_bytes(I codes) {
    return make_i([&](int i) { return (codes.v[i] >> 8) & 0x00ff00ffu; });
  }

  // Dot products of quads over one group of 32: unsigned codes up to 15 times activations in
  // +-127. kWideQuads: Quads are 32-bit lanes, which take any number of groups.
  static constexpr bool kWideQuads = true;
  using Quads = I;
  MR_INLINE static Quads quads_zero() { return zero_i(); }
  MR_INLINE static Quads dot4(Quads sum, I codes, I values) {
    return make_i([&](int i) {
      uint32_t r = sum.v[i];
      for (int b = 0; b < 32; b += 8) {
        const int32_t code = static_cast<int32_t>((codes.v[i] >> b) & 0xffu);
        r += static_cast<uint32_t>(code * static_cast<int8_t>(values.v[i] >> b));
      }
      return r;
    });
  }
  MR_INLINE static I quads_sum(Quads sum) { return sum; }
  // The same times an integer scale of up to 63 a row, added up over the groups of 128 k.
  using GroupScale = I;
  using ScaledSum = I;
  MR_INLINE static GroupScale group_scale(I scale) { return scale; }
  MR_INLINE static GroupScale load_group_scale(const void* p) { return load_i(p); }
  MR_INLINE static void store_group_scale(void* p, GroupScale scale) { store_i(p, scale); }
  MR_INLINE static ScaledSum scaled_zero() { return zero_i(); }
  MR_INLINE static ScaledSum add_scaled(ScaledSum total, Quads sum, GroupScale scale) {
    return make_i([&](int i) { return total.v[i] + sum.v[i] * scale.v[i]; });
  }
  MR_INLINE static F scaled_to_float(ScaledSum total) { return to_float(total); }

 private:
  // The bits of a code are those of a float of smaller exponent bias, subnormals too.
  MR_INLINE static float e4m3_over_256(uint32_t code) {
    return f32_from_bits((code & 0x80u) << 24 | (code & 0x7fu) << 20) * 0x1p112f;
  }
  MR_INLINE static int32_t half(uint32_t pair, int which) {
    return static_cast<int16_t>(pair >> (16 * which));
  }
};

}  // namespace
}  // namespace millrace::kernels

#pragma once
// AVX-512 (F, BW, VL, DQ, VNNI) registers as the kernels see them; 16 floats or 32-bit
// integers a register. See isa_scalar.h for what each function means. Only for AVX-512 units.
// Integer registers are GNU vectors: gcc 12 keeps arrays of __m512i on the stack.

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/inline.h"

namespace millrace::kernels {
namespace {

struct Avx512 {
  static constexpr int kWidth = 16;
  static constexpr int kTileRows = 6;
  static constexpr int kBytesAhead = 8192;  // on Zen 5; 1024 and 2048 gave 0.4 to 0.8 of it
  static constexpr int kPlanesAhead = 16384;
  using F = __m512;
  typedef int I __attribute__((vector_size(64)));

  // Float registers.
  MR_INLINE static F zero() { return _mm512_setzero_ps(); }
  MR_INLINE static F set1(float x) { return _mm512_set1_ps(x); }
  MR_INLINE static F load(const float* p) { return _mm512_loadu_ps(p); }
  MR_INLINE static void store(float* p, F a) { _mm512_storeu_ps(p, a); }
  MR_INLINE static F load_partial(const float* p, int n) {
    return _mm512_maskz_loadu_ps(lane_mask(n), p);
  }
  MR_INLINE static void store_partial(float* p, F a, int n) {
    _mm512_mask_storeu_ps(p, lane_mask(n), a);
  }
  MR_INLINE static F add(F a, F b) { return _mm512_add_ps(a, b); }
  MR_INLINE static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  MR_INLINE static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  MR_INLINE static F div(F a, F b) { return _mm512_div_ps(a, b); }
  MR_INLINE static F sqrt(F a) { return _mm512_sqrt_ps(a); }
  MR_INLINE static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  MR_INLINE static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  MR_INLINE static F max(F a, F b) { return _mm512_max_ps(a, b); }
  MR_INLINE static F min(F a, F b) { return _mm512_min_ps(a, b); }
  MR_INLINE static F abs(F a) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff)));
  }
  MR_INLINE static F round(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  MR_INLINE static F select_less(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  MR_INLINE static float sum(F a) {
    const __m256 half = _mm256_add_ps(low_half(a), high_half(a));
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 eighth = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(eighth, _mm_movehdup_ps(eighth)));
  }
  MR_INLINE static float max_lane(F a) {
    const __m256 half = _mm256_max_ps(low_half(a), high_half(a));
    const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 eighth = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_max_ss(eighth, _mm_movehdup_ps(eighth)));
  }

  // Integer registers.
  MR_INLINE static I zero_i() { return I{}; }
  MR_INLINE static I set1_i(int32_t x) { return (I)_mm512_set1_epi32(x); }
  MR_INLINE static I load_i(const void* p) { return (I)_mm512_loadu_si512(p); }
  MR_INLINE static void store_i(void* p, I a) { _mm512_storeu_si512(p, (__m512i)a); }
  MR_INLINE static I broadcast(const void* p) {
    int32_t x;
    memcpy(&x, p, sizeof(x));
    return (I)_mm512_set1_epi32(x);
  }
  MR_INLINE static I add_i(I a, I b) { return (I)_mm512_add_epi32((__m512i)a, (__m512i)b); }
  MR_INLINE static I sub_i(I a, I b) { return (I)_mm512_sub_epi32((__m512i)a, (__m512i)b); }
  MR_INLINE static I and_i(I a, I b) { return (I)_mm512_and_si512((__m512i)a, (__m512i)b); }
  MR_INLINE static I or_i(I a, I b) { return (I)_mm512_or_si512((__m512i)a, (__m512i)b); }
  template <int kBits>
  MR_INLINE static I shift_left(I a) {
    return (I)_mm512_slli_epi32((__m512i)a, kBits);
  }
  template <int kBits>
  MR_INLINE static I shift_right(I a) {
    return (I)_mm512_srli_epi32((__m512i)a, kBits);
  }
  MR_INLINE static F to_float(I a) { return _mm512_cvtepi32_ps((__m512i)a); }
  MR_INLINE static I to_int(F a) { return (I)_mm512_cvtps_epi32(a); }
  MR_INLINE static int32_t sum_i(I a) { return _mm512_reduce_add_epi32((__m512i)a); }
  MR_INLINE static F as_float(I a) { return _mm512_castsi512_ps((__m512i)a); }
  MR_INLINE static I as_int(F a) { return (I)_mm512_castps_si512(a); }

  // Narrow memory formats, one element a lane.
  MR_INLINE static I load_u8(const uint8_t* p) {
    return (I)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
  }
  MR_INLINE static I load_i8(const uint8_t* p) {
    return (I)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p));
  }
  MR_INLINE static F load_f16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
  }
  MR_INLINE static F load_e4m3(const uint8_t* p) {
    const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)p));
    const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x80)), 8);
    const __m256i magnitude = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x7f)), 7);
    return _mm512_cvtph_ps(_mm256_or_si256(sign, magnitude));
  }
  MR_INLINE static void load_e4m3_pairs(const uint8_t* p, F (&first)[2], F (&second)[2]) {
    const __m512i codes = _mm512_loadu_si512(p);
    // Halves of the code in the upper byte of 16 bits: the sign stays, the rest moves by one.
    const __m512i kept = _mm512_set1_epi16((short)0xbf80);
    const __m512i low = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi16(codes, 8), 1), kept);
    const __m512i high = _mm512_and_si512(_mm512_srai_epi16(codes, 1), kept);
    first[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(low));
    first[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(low, 1));
    second[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(high));
    second[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(high, 1));
  }
  MR_INLINE static F load_bf16(const void* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  MR_INLINE static void store_bf16(void* p, F a) {
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16((__m512i)bf16_bits(a)));
  }
  MR_INLINE static void store_i8(int8_t* p, I a) {
    _mm_storeu_si128((__m128i*)p, _mm512_cvtsepi32_epi8((__m512i)a));
  }
  MR_INLINE static void store_i16(int16_t* p, I a) {
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtsepi32_epi16((__m512i)a));
  }
  MR_INLINE static void store_i16_even_odd(int16_t* p, I a) {
    constexpr int kOrder = _MM_SHUFFLE(3, 1, 2, 0);
    const __m256i packed = _mm512_cvtsepi32_epi16((__m512i)a);
    _mm256_storeu_si256((__m256i*)p,
                        _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(packed, kOrder), kOrder));
  }
  MR_INLINE static F low_bf16(I pairs) { return as_float(shift_left<16>(pairs)); }
  MR_INLINE static F high_bf16(I pairs) {
    return as_float(and_i(pairs, set1_i(static_cast<int32_t>(0xffff0000u))));
  }
  MR_INLINE static I bf16_bits(F a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return (I)_mm512_srli_epi32(_mm512_mask_blend_epi32(is_nan, rounded, quiet), 16);
  }

  // Dot products of 16-bit pairs: lane += a.low * b.low + a.high * b.high.
  MR_INLINE static I dot2(I sum, I a, I b) {
    return (I)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
  }
  // Even and odd bytes of four unsigned codes as 16-bit pairs.
  MR_INLINE static I even_bytes(I codes) { return and_i(codes, set1_i(0x00ff00ff)); }
  MR_INLINE static I odd_bytes(I codes) { return (I)_mm512_srli_epi16((__m512i)codes, 8); }

  // Dot products of quads over one group of 32: unsigned codes times activations in +-127.
  static constexpr bool kWideQuads = true;
  using Quads = I;
  MR_INLINE static Quads quads_zero() { return I{}; }
  MR_INLINE static Quads dot4(Quads sum, I codes, I values) {
    return (I)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, (__m512i)values);
  }
  MR_INLINE static I quads_sum(Quads sum) { return sum; }
  // The same times an integer scale of up to 63 a row, added up over the groups of 128 k: below
  // 2^24, so float arithmetic is exact, and faster than a 32-bit multiply.
  using GroupScale = F;
  using ScaledSum = F;
  MR_INLINE static GroupScale group_scale(I scale) { return to_float(scale); }
  MR_INLINE static GroupScale load_group_scale(const void* p) { return as_float(load_i(p)); }
  MR_INLINE static void store_group_scale(void* p, GroupScale scale) { store_i(p, as_int(scale)); }
  MR_INLINE static ScaledSum scaled_zero() { return zero(); }
  MR_INLINE static ScaledSum add_scaled(ScaledSum total, Quads sum, GroupScale scale) {
    return fma(to_float(sum), scale, total);
  }
  MR_INLINE static F scaled_to_float(ScaledSum total) { return total; }

 private:
  MR_INLINE static __mmask16 lane_mask(int n) {
    return static_cast<__mmask16>(n >= 16 ? 0xffffu : (1u << (n < 0 ? 0 : n)) - 1u);
  }
  MR_INLINE static __m256 low_half(F a) { return _mm512_castps512_ps256(a); }
  MR_INLINE static __m256 high_half(F a) {
    return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(a), 1));
  }
};

}  // namespace
}  // namespace millrace::kernels

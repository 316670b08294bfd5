#pragma once
// AVX2 + FMA + F16C registers as the kernels see them; 8 floats or 32-bit integers a register.
// See isa_scalar.h for what each function means. Only for kernels_avx2.cpp.

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/inline.h"

namespace millrace::kernels {
namespace {

struct Avx2 {
  static constexpr int kWidth = 8;
  static constexpr int kTileRows = 4;
  static constexpr int kBytesAhead = 1024;  // on Zen 3; nearer and farther gave less
  static constexpr int kPlanesAhead = 2048;
  using F = __m256;
  typedef int I __attribute__((vector_size(32)));

  // Float registers.
  MR_INLINE static F zero() { return _mm256_setzero_ps(); }
  MR_INLINE static F set1(float x) { return _mm256_set1_ps(x); }
  MR_INLINE static F load(const float* p) { return _mm256_loadu_ps(p); }
  MR_INLINE static void store(float* p, F a) { _mm256_storeu_ps(p, a); }
  MR_INLINE static F load_partial(const float* p, int n) {
    return _mm256_maskload_ps(p, lane_mask(n));
  }
  MR_INLINE static void store_partial(float* p, F a, int n) {
    _mm256_maskstore_ps(p, lane_mask(n), a);
  }
  MR_INLINE static F add(F a, F b) { return _mm256_add_ps(a, b); }
  MR_INLINE static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  MR_INLINE static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  MR_INLINE static F div(F a, F b) { return _mm256_div_ps(a, b); }
  MR_INLINE static F sqrt(F a) { return _mm256_sqrt_ps(a); }
  MR_INLINE static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  MR_INLINE static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  MR_INLINE static F max(F a, F b) { return _mm256_max_ps(a, b); }
  MR_INLINE static F min(F a, F b) { return _mm256_min_ps(a, b); }
  MR_INLINE static F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  MR_INLINE static F round(F a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  MR_INLINE static F select_less(F a, F b, F yes, F no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  MR_INLINE static float sum(F a) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
  }
  MR_INLINE static float max_lane(F a) {
    const __m128 half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 quarter = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(quarter, _mm_movehdup_ps(quarter)));
  }

  // Integer registers.
  MR_INLINE static I zero_i() { return I{}; }
  MR_INLINE static I set1_i(int32_t x) { return (I)_mm256_set1_epi32(x); }
  MR_INLINE static I load_i(const void* p) { return (I)_mm256_loadu_si256((const __m256i*)p); }
  MR_INLINE static void store_i(void* p, I a) { _mm256_storeu_si256((__m256i*)p, (__m256i)a); }
  MR_INLINE static I broadcast(const void* p) {
    int32_t x;
    memcpy(&x, p, sizeof(x));
    return (I)_mm256_set1_epi32(x);
  }
  MR_INLINE static I add_i(I a, I b) { return (I)_mm256_add_epi32((__m256i)a, (__m256i)b); }
  MR_INLINE static I sub_i(I a, I b) { return (I)_mm256_sub_epi32((__m256i)a, (__m256i)b); }
  MR_INLINE static I and_i(I a, I b) { return (I)_mm256_and_si256((__m256i)a, (__m256i)b); }
  MR_INLINE static I or_i(I a, I b) { return (I)_mm256_or_si256((__m256i)a, (__m256i)b); }
  template <int kBits>
  MR_INLINE static I shift_left(I a) {
    return (I)_mm256_slli_epi32((__m256i)a, kBits);
  }
  template <int kBits>
  MR_INLINE static I shift_right(I a) {
    return (I)_mm256_srli_epi32((__m256i)a, kBits);
  }
  MR_INLINE static F to_float(I a) { return _mm256_cvtepi32_ps((__m256i)a); }
  MR_INLINE static I to_int(F a) { return (I)_mm256_cvtps_epi32(a); }
  MR_INLINE static int32_t sum_i(I a) {
    const __m128i half =
        _mm_add_epi32(_mm256_castsi256_si128((__m256i)a), _mm256_extracti128_si256((__m256i)a, 1));
    const __m128i quarter = _mm_add_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(1, 0, 3, 2)));
    return _mm_cvtsi128_si32(
        _mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, _MM_SHUFFLE(2, 3, 0, 1))));
  }
  MR_INLINE static F as_float(I a) { return _mm256_castsi256_ps((__m256i)a); }
  MR_INLINE static I as_int(F a) { return (I)_mm256_castps_si256(a); }

  // Narrow memory formats, one element a lane.
  MR_INLINE static I load_u8(const uint8_t* p) {
    return (I)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
  }
  MR_INLINE static I load_i8(const uint8_t* p) {
    return (I)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
  }
  MR_INLINE static F load_f16(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
  }
  // e4m3 over 256: its bits are those of a half of a smaller exponent bias.
  MR_INLINE static F load_e4m3(const uint8_t* p) {
    const __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)p));
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
    const __m128i magnitude = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x7f)), 7);
    return _mm256_cvtph_ps(_mm_or_si128(sign, magnitude));
  }
  MR_INLINE static void load_e4m3_pairs(const uint8_t* p, F (&first)[2], F (&second)[2]) {
    const __m256i codes = _mm256_loadu_si256((const __m256i*)p);
    // Halves of the code in the upper byte of 16 bits: the sign stays, the rest moves by one.
    const __m256i kept = _mm256_set1_epi16((short)0xbf80);
    const __m256i low = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 1), kept);
    const __m256i high = _mm256_and_si256(_mm256_srai_epi16(codes, 1), kept);
    first[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(low));
    first[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(low, 1));
    second[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(high));
    second[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(high, 1));
  }
  MR_INLINE static F load_bf16(const void* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  MR_INLINE static void store_bf16(void* p, F a) {
    const __m256i bits = (__m256i)bf16_bits(a);
    const __m256i packed = _mm256_packus_epi32(bits, bits);
    const __m256i ordered = _mm256_permute4x64_epi64(packed, 0x08);
    _mm_storeu_si128((__m128i*)p, _mm256_castsi256_si128(ordered));
  }
  MR_INLINE static void store_i8(int8_t* p, I a) {
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)a),
                                         _mm256_extracti128_si256((__m256i)a, 1));
    _mm_storel_epi64((__m128i*)p, _mm_packs_epi16(half, half));
  }
  MR_INLINE static void store_i16(int16_t* p, I a) {
    _mm_storeu_si128((__m128i*)p,
                     _mm_packs_epi32(_mm256_castsi256_si128((__m256i)a),
                                     _mm256_extracti128_si256((__m256i)a, 1)));
  }
  MR_INLINE static void store_i16_even_odd(int16_t* p, I a) {
    const __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)a),
                                           _mm256_extracti128_si256((__m256i)a, 1));
    constexpr int kOrder = _MM_SHUFFLE(3, 1, 2, 0);
    _mm_storeu_si128((__m128i*)p, _mm_shufflehi_epi16(_mm_shufflelo_epi16(packed, kOrder), kOrder));
  }
  MR_INLINE static F low_bf16(I pairs) { return as_float(shift_left<16>(pairs)); }
  MR_INLINE static F high_bf16(I pairs) {
    return as_float(and_i(pairs, set1_i(static_cast<int32_t>(0xffff0000u))));
  }
  MR_INLINE static I bf16_bits(F a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const __m256 kept =
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan);
    return (I)_mm256_srli_epi32(_mm256_castps_si256(kept), 16);
  }

  // Dot products of 16-bit pairs: lane += a.low * b.low + a.high * b.high.
  MR_INLINE static I dot2(I sum, I a, I b) {
    return add_i(sum, (I)_mm256_madd_epi16((__m256i)a, (__m256i)b));
  }
  // Even and odd bytes of four unsigned codes as 16-bit pairs.
  MR_INLINE static I even_bytes(I codes) { return and_i(codes, set1_i(0x00ff00ff)); }
  MR_INLINE static I odd_bytes(I codes) { return (I)_mm256_srli_epi16((__m256i)codes, 8); }

  // Dot products of quads over one group of 32: unsigned codes up to 15 times activations in
  // +-127. The 16 products that meet in a 16-bit half lane stay below 2^15.
  static constexpr bool kWideQuads = false;
  typedef short Quads __attribute__((vector_size(32)));
  MR_INLINE static Quads quads_zero() { return Quads{}; }
  MR_INLINE static Quads dot4(Quads sum, I codes, I values) {
    const __m256i products = _mm256_maddubs_epi16((__m256i)codes, (__m256i)values);
    return (Quads)_mm256_add_epi16((__m256i)sum, products);
  }
  MR_INLINE static I quads_sum(Quads sum) {
    return (I)_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1));
  }
  // The same times an integer scale of up to 63 a row, added up over groups.
  using GroupScale = I;
  using ScaledSum = I;
  MR_INLINE static GroupScale group_scale(I scale) { return or_i(scale, shift_left<16>(scale)); }
  MR_INLINE static GroupScale load_group_scale(const void* p) { return load_i(p); }
  MR_INLINE static void store_group_scale(void* p, GroupScale scale) { store_i(p, scale); }
  MR_INLINE static ScaledSum scaled_zero() { return zero_i(); }
  MR_INLINE static ScaledSum add_scaled(ScaledSum total, Quads sum, GroupScale scale) {
    return add_i(total, (I)_mm256_madd_epi16((__m256i)sum, (__m256i)scale));
  }
  MR_INLINE static F scaled_to_float(ScaledSum total) { return to_float(total); }

 private:
  MR_INLINE static __m256i lane_mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace millrace::kernels

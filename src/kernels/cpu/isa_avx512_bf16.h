#pragma once
// AVX-512 registers with the dot products of BF16 pairs. Only for units compiled for them.
//
// Both instructions take denormals for zero and give zero for them, whatever MXCSR says.

#include "kernels/cpu/isa_avx512.h"

namespace millrace::kernels {
namespace {

struct Avx512Bf16 : Avx512 {
  static constexpr int kTileRows = 8;

  // lane = (lane + a.high * b.high) + a.low * b.low, each sum rounded to f32.
  MR_INLINE static F dot_bf16(F sum, I a, I b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  // Pairs of e4m3 over 256, which is a normal bf16 also where the code is subnormal.
  MR_INLINE static I load_e4m3_bf16(const uint8_t* p) {
    const __m512i codes = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)p));
    const __m512i shifted = _mm512_slli_epi16(codes, 4);
    const __m512i magnitude = _mm512_and_si512(shifted, _mm512_set1_epi16(0x07f0));
    const __m512i normal = _mm512_add_epi16(magnitude, _mm512_set1_epi16(112 << 7));
    // Of the codes 0 to 7: that times 2^-17.
    const __m512i small = _mm512_broadcast_i32x4(
        _mm_setr_epi16(0, 0x3700, 0x3780, 0x37c0, 0x3800, 0x3820, 0x3840, 0x3860));
    const __mmask32 is_small = _mm512_testn_epi16_mask(codes, _mm512_set1_epi16(0x78));
    const __m512i value = _mm512_mask_permutexvar_epi16(normal, is_small, codes, small);
    const __m512i sign = _mm512_and_si512(shifted, _mm512_set1_epi16((short)0x8000));
    return (I)_mm512_or_si512(value, sign);
  }
  MR_INLINE static I bf16_bits(F a) {
    return (I)_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a));
  }
  MR_INLINE static void store_bf16(void* p, F a) {
    _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(a));
  }
};

}  // namespace
}  // namespace millrace::kernels

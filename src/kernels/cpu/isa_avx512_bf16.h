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
  MR_INLINE static I bf16_bits(F a) {
    return (I)_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a));
  }
  MR_INLINE static void store_bf16(void* p, F a) {
    _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(a));
  }
};

}  // namespace
}  // namespace millrace::kernels

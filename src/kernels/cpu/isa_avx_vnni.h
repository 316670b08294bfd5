#pragma once
// AVX2 registers with the integer dot products of AVX-VNNI, which add into 32-bit lanes. See
// isa_scalar.h for what each function means. Only for kernels_avx_vnni.cpp.

#include "kernels/cpu/isa_avx2.h"

namespace millrace::kernels {
namespace {

struct AvxVnni : Avx2 {
  MR_INLINE static I dot2(I sum, I a, I b) {
    return (I)_mm256_dpwssd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
  }

  static constexpr bool kWideQuads = true;
  using Quads = I;
  MR_INLINE static Quads quads_zero() { return I{}; }
  MR_INLINE static Quads dot4(Quads sum, I codes, I values) {
    return (I)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)codes, (__m256i)values);
  }
  MR_INLINE static I quads_sum(Quads sum) { return sum; }
  // Below 2^24, so float arithmetic is exact, and faster than a 32-bit multiply.
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
};

}  // namespace
}  // namespace millrace::kernels

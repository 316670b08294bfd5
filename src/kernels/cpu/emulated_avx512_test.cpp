// isa_avx512.h over SIMDe instead of the compiler's intrinsics. What Debian 12's SIMDe lacks is
// below, lane by lane, after Intel's description of the instruction.
#include "kernels/cpu/emulated_avx512_testing.h"

#ifdef MILLRACE_HAS_SIMDE

#define MR_PORTABLE_UNIT  // inlining of every helper would take minutes to compile
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include <math.h>

#include "tensor/half.h"

namespace millrace::kernels {
namespace {

typedef int32_t Int32x16 __attribute__((vector_size(64)));
typedef float Floatx16 __attribute__((vector_size(64)));
typedef int16_t Int16x16 __attribute__((vector_size(32)));
typedef uint16_t Uint16x16 __attribute__((vector_size(32)));
typedef int8_t Int8x16 __attribute__((vector_size(16)));
typedef uint8_t Uint8x16 __attribute__((vector_size(16)));
typedef uint16_t Uint16x32 __attribute__((vector_size(64)));

simde__m512 emulated_cvtepi32_ps(simde__m512i a) {
  return (simde__m512) __builtin_convertvector((Int32x16)a, Floatx16);
}
simde__m512i emulated_cvtps_epi32(simde__m512 a) {
  const Floatx16 from = (Floatx16)a;
  Int32x16 to;
  for (int i = 0; i < 16; ++i) {
    const bool fits = from[i] >= -0x1p31f && from[i] < 0x1p31f;
    to[i] = fits ? static_cast<int32_t>(nearbyintf(from[i])) : INT32_MIN;
  }
  return (simde__m512i)to;
}
__m256i emulated_cvtepi32_epi16(simde__m512i a) {
  return (__m256i) __builtin_convertvector((Int32x16)a, Int16x16);
}
simde__m512i emulated_cvtepu16_epi32(__m256i a) {
  return (simde__m512i) __builtin_convertvector((Uint16x16)a, Int32x16);
}
simde__m512i emulated_cvtepi8_epi32(__m128i a) {
  return (simde__m512i) __builtin_convertvector((Int8x16)a, Int32x16);
}
simde__m512i emulated_cvtepu8_epi32(__m128i a) {
  return (simde__m512i) __builtin_convertvector((Uint8x16)a, Int32x16);
}
simde__m512 emulated_cvtph_ps(__m256i a) {
  float to[16];
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm256_castsi256_si128(a)));
  _mm256_storeu_ps(to + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
  return simde_mm512_loadu_ps(to);
}
simde__m512 emulated_maskz_loadu_ps(simde__mmask16 mask, const float* p) {
  float to[16] = {};
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) to[i] = p[i];
  }
  return simde_mm512_loadu_ps(to);
}
void emulated_mask_storeu_ps(float* p, simde__mmask16 mask, simde__m512 a) {
  const Floatx16 from = (Floatx16)a;
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) p[i] = from[i];
  }
}
simde__mmask32 emulated_testn_epi16_mask(Uint16x32 a, Uint16x32 b) {
  simde__mmask32 mask = 0;
  for (int i = 0; i < 32; ++i) mask |= static_cast<simde__mmask32>((a[i] & b[i]) == 0) << i;
  return mask;
}
int32_t emulated_reduce_add_epi32(simde__m512i a) {
  const Int32x16 from = (Int32x16)a;
  uint32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += static_cast<uint32_t>(from[i]);
  return static_cast<int32_t>(sum);
}

// The BF16 instructions know no denormals.
float without_denormals(float x) {
  return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}
float emulated_float(uint16_t bf16) {
  return without_denormals(bf16_to_f32(bf16));
}
// The product of two bf16 is exact.
simde__m512 emulated_dpbf16_ps(simde__m512 sum, Uint16x32 a, Uint16x32 b) {
  Floatx16 to = (Floatx16)sum;
  for (int i = 0; i < 16; ++i) {
    float total = without_denormals(to[i]);
    total =
        without_denormals(fmaf(emulated_float(a[2 * i + 1]), emulated_float(b[2 * i + 1]), total));
    to[i] = without_denormals(fmaf(emulated_float(a[2 * i]), emulated_float(b[2 * i]), total));
  }
  return (simde__m512)to;
}
__m256i emulated_cvtneps_pbh(simde__m512 a) {
  const Floatx16 from = (Floatx16)a;
  Uint16x16 to;
  for (int i = 0; i < 16; ++i) to[i] = f32_to_bf16(without_denormals(from[i]));
  return (__m256i)to;
}

}  // namespace
}  // namespace millrace::kernels

#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#define _mm512_cvtps_epi32 emulated_cvtps_epi32
#define _mm512_cvtepi32_epi16 emulated_cvtepi32_epi16
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#define _mm512_cvtepi8_epi32 emulated_cvtepi8_epi32
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#define _mm512_cvtph_ps emulated_cvtph_ps
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#define _mm512_testn_epi16_mask(a, b) emulated_testn_epi16_mask((Uint16x32)(a), (Uint16x32)(b))
#define _mm512_reduce_add_epi32 emulated_reduce_add_epi32
#undef _mm512_dpbf16_ps  // SIMDe's rounds otherwise
#define _mm512_dpbf16_ps(sum, a, b) emulated_dpbf16_ps(sum, (Uint16x32)(a), (Uint16x32)(b))
#define _mm512_cvtneps_pbh emulated_cvtneps_pbh

#include "kernels/cpu/attention_bf16.inl.h"
#include "kernels/cpu/isa_avx512.h"
#include "kernels/cpu/isa_avx512_bf16.h"
#include "kernels/cpu/kernels.inl.h"
#include "kernels/cpu/linear_bf16.inl.h"
#include "kernels/cpu/linear_fp8_bf16.inl.h"

namespace millrace::kernels {

const KernelTable* emulated_avx512_kernels() {
  static constexpr KernelTable kTable = make_table<Avx512>();
  return &kTable;
}

const KernelTable* emulated_avx512_bf16_kernels() {
  static const KernelTable kTable =
      with_bf16(*emulated_avx512_kernels(),
                {.linear_bf16 = linear_panels<Avx512Bf16, Bf16Panel<Avx512Bf16>>,
                 .linear_fp8 = linear_panels<Avx512Bf16, Fp8Bf16Panel<Avx512Bf16>>,
                 .attend = attend<Avx512Bf16, Bf16Attention<Avx512Bf16>>});
  return &kTable;
}

}  // namespace millrace::kernels

#else

const millrace::kernels::KernelTable* millrace::kernels::emulated_avx512_kernels() {
  return nullptr;
}
const millrace::kernels::KernelTable* millrace::kernels::emulated_avx512_bf16_kernels() {
  return nullptr;
}

#endif

// isa_avx512.h over SIMDe instead of the compiler's intrinsics. What Debian 12's SIMDe lacks is
// below, lane by lane, after Intel's description of the instruction.
#include "kernels/cpu/emulated_avx512_testing.h"

#ifdef MILLRACE_HAS_SIMDE

#define MR_PORTABLE_UNIT  // inlining of every helper would take minutes to compile
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include <math.h>

namespace millrace::kernels {
namespace {

typedef int32_t Int32x16 __attribute__((vector_size(64)));
typedef float Floatx16 __attribute__((vector_size(64)));
typedef int16_t Int16x16 __attribute__((vector_size(32)));
typedef uint16_t Uint16x16 __attribute__((vector_size(32)));
typedef int8_t Int8x16 __attribute__((vector_size(16)));
typedef uint8_t Uint8x16 __attribute__((vector_size(16)));

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
int32_t emulated_reduce_add_epi32(simde__m512i a) {
  const Int32x16 from = (Int32x16)a;
  uint32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += static_cast<uint32_t>(from[i]);
  return static_cast<int32_t>(sum);
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
#define _mm512_reduce_add_epi32 emulated_reduce_add_epi32

#include "kernels/cpu/isa_avx512.h"
#include "kernels/cpu/kernels.inl.h"

namespace millrace::kernels {

const KernelTable* emulated_avx512_kernels() {
  static constexpr KernelTable kTable = make_table<Avx512>();
  return &kTable;
}

}  // namespace millrace::kernels

#else

const millrace::kernels::KernelTable* millrace::kernels::emulated_avx512_kernels() {
  return nullptr;
}

#endif

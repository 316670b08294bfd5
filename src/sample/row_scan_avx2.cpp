// The row passes compiled for AVX2. Without FMA: a fused result would differ from the portable one.

#include <immintrin.h>

#include "sample/row_scan.h"

namespace millrace {
namespace {

typedef float F8 __attribute__((vector_size(32)));
typedef int32_t I8 __attribute__((vector_size(32)));

inline __attribute__((always_inline)) F8 max8(F8 a, F8 b) {
  return (F8)_mm256_max_ps((__m256)a, (__m256)b);
}

struct Product {
  __m256i low;
  __m256i high;
};

inline __attribute__((always_inline)) Product multiply(__m256i a, __m256i factor) {
  const __m256i even = _mm256_mul_epu32(a, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
  return {_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA),
          _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA)};
}

// The eight blocks of philox4x32 (base/philox.h) with 32 values of a stream.
inline __attribute__((always_inline)) void philox8(NoiseKey key,
                                                   uint32_t stream,
                                                   uint32_t group,
                                                   I8* words) {
  const __m256i factor0 = _mm256_set1_epi32(static_cast<int>(0xD2511F53U));
  const __m256i factor1 = _mm256_set1_epi32(static_cast<int>(0xCD9E8D57U));
  auto key0 = static_cast<uint32_t>(key.seed);
  auto key1 = static_cast<uint32_t>(key.seed >> 32);
  __m256i c0 = _mm256_set1_epi32(static_cast<int>(key.position));
  __m256i c1 = _mm256_set1_epi32(static_cast<int>(key.position >> 32));
  __m256i c2 = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(8 * group)),
                                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i c3 = _mm256_set1_epi32(static_cast<int>(stream));
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(c0, factor0);
    const Product p1 = multiply(c2, factor1);
    c0 = _mm256_xor_si256(_mm256_xor_si256(p1.high, c1), _mm256_set1_epi32(static_cast<int>(key0)));
    c1 = p1.low;
    c2 = _mm256_xor_si256(_mm256_xor_si256(p0.high, c3), _mm256_set1_epi32(static_cast<int>(key1)));
    c3 = p0.low;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  words[0] = (I8)c0;
  words[1] = (I8)c1;
  words[2] = (I8)c2;
  words[3] = (I8)c3;
}

#include "sample/row_scan_passes.inl"

}  // namespace

const RowScan kRowScanAvx2 = {
    "avx2", block_maxima, pair_maxima, sum_of_weights, at_least, contenders};

}  // namespace millrace

// The row passes for any x86-64.

#include "sample/row_scan.h"

namespace millrace {
namespace {

typedef float F8 __attribute__((vector_size(32)));
typedef int32_t I8 __attribute__((vector_size(32)));

inline __attribute__((always_inline)) F8 max8(F8 a, F8 b) {
  return a > b ? a : b;
}

// The high noise words of the eight Philox blocks of one group of 32 tokens.
void philox_high8(NoiseKey key, uint32_t group, I8* high) {
  for (uint32_t lane = 0; lane < 8; ++lane) {
    const PhiloxBlock block = philox4x32(key.seed,
                                         {static_cast<uint32_t>(key.position),
                                          static_cast<uint32_t>(key.position >> 32),
                                          8 * group + lane,
                                          kNoiseHigh});
    for (int word = 0; word < 4; ++word) {
      high[word][lane] = static_cast<int32_t>(block[word]);
    }
  }
}

#include "sample/row_scan_passes.inl"

}  // namespace

const RowScan kRowScanPortable = {"portable", block_maxima, sum_of_weights, at_least, contenders};

}  // namespace millrace

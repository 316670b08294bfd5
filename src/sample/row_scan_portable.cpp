// The row passes for any x86-64.

#include "sample/row_scan.h"

namespace millrace {
namespace {

typedef float F8 __attribute__((vector_size(32)));
typedef int32_t I8 __attribute__((vector_size(32)));

inline __attribute__((always_inline)) F8 max8(F8 a, F8 b) {
  return a > b ? a : b;
}

// The eight Philox blocks with 32 values of a stream.
void philox8(NoiseKey key, uint32_t stream, uint32_t group, I8* words) {
  for (uint32_t lane = 0; lane < 8; ++lane) {
    const PhiloxBlock block = philox4x32(key.seed,
                                         {static_cast<uint32_t>(key.position),
                                          static_cast<uint32_t>(key.position >> 32),
                                          8 * group + lane,
                                          stream});
    for (int word = 0; word < 4; ++word) {
      words[word][lane] = static_cast<int32_t>(block[word]);
    }
  }
}

#include "sample/row_scan_passes.inl"

}  // namespace

const RowScan kRowScanPortable = {
    "portable", block_maxima, pair_maxima, sum_of_weights, at_least, contenders};

}  // namespace millrace

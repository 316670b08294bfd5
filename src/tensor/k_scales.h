#pragma once
// The packed 6-bit scales of the 256-value blocks; the layouts are described in blocks.h.

#include <stdint.h>

namespace millrace {

struct ScaleMin6 {
  int scale;  // 0..63
  int min;    // 0..63
};

// Q4_K, Q5_K: group 0..7.
static constexpr ScaleMin6 scale_min_6(const uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4),
          (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4)};
}

// The inverse, for all eight groups at once.
static constexpr void pack_scale_min_6(const ScaleMin6* groups, uint8_t* packed) {
  for (int g = 0; g < 4; ++g) {
    const ScaleMin6 low = groups[g];
    const ScaleMin6 high = groups[g + 4];
    packed[g] = static_cast<uint8_t>(low.scale | ((high.scale >> 4) << 6));
    packed[g + 4] = static_cast<uint8_t>(low.min | ((high.min >> 4) << 6));
    packed[g + 8] = static_cast<uint8_t>((high.scale & 15) | ((high.min & 15) << 4));
  }
}

// Q3_K: group 0..15, result 0..63 (the scale is this less 32).
static constexpr int q3_k_scale(const uint8_t* packed, int group) {
  const int low = (packed[group % 8] >> (4 * (group / 8))) & 15;
  const int high = (packed[8 + group % 4] >> (2 * (group / 4))) & 3;
  return low | (high << 4);
}

static constexpr void pack_q3_k_scales(const int* scales, uint8_t* packed) {
  for (int i = 0; i < 12; ++i) packed[i] = 0;
  for (int group = 0; group < 16; ++group) {
    packed[group % 8] |= static_cast<uint8_t>((scales[group] & 15) << (4 * (group / 8)));
    packed[8 + group % 4] |= static_cast<uint8_t>((scales[group] >> 4) << (2 * (group / 4)));
  }
}

}  // namespace millrace

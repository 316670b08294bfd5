#pragma once
// Rounding and cleaning shared by the encoders. Any thread.

#include <cstdint>

#include "tensor/half.h"

namespace millrace {

// Nearest integer, ties to even; |x| <= 2^21. Adding 1.5 * 2^23 leaves the integer in the mantissa:
// unlike lrintf this compiles to vector code.
static constexpr int nearest_int(float x) {
  return static_cast<int>(f32_bits(x + 12582912.0f)) - 0x4b400000;
}

static constexpr float clamp(float x, float low, float high) {
  const float raised = x > low ? x : low;  // NaN becomes low
  return raised < high ? raised : high;
}

// Beyond what any quantised type can store, yet the encoders' sums of products still fit a float.
static constexpr float kLargestEncodable = 0x1p31f;

// NaN becomes 0, infinities become finite.
static inline void load_clean(const float* values, float* x, int n) {
  for (int i = 0; i < n; ++i) {
    const float value = values[i] == values[i] ? values[i] : 0.0f;
    x[i] = clamp(value, -kLargestEncodable, kLargestEncodable);
  }
}

static constexpr uint16_t saturated_f16(float x) {
  return f32_to_f16(clamp(x, -65504.0f, 65504.0f));
}

}  // namespace millrace

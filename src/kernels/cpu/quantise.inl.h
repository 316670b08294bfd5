#pragma once
// Activation rows: f32 values become the records of kernels/panel.h, a block at a time.

#include <string.h>

#include "kernels/cpu/inline.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

struct GroupRange {
  float scale;    // a = scale * value
  float inverse;  // value = round(a * inverse); 0 for a group that counts as zero
};

// Of a group with this largest magnitude, which becomes `limit`. poison: NaN if a value of the
// group is not finite, else 0; it makes the scale NaN, so that every product with the group is NaN.
MR_INLINE GroupRange range_of(float largest, float poison, float limit) {
  constexpr float kSmallest = 1e-33f;  // limit / kSmallest is still finite
  if (!(poison == 0.0f)) {
    return {__builtin_nanf(""), 0.0f};
  }
  if (largest < kSmallest) {
    return {0.0f, 0.0f};
  }
  return {largest / limit, limit / largest};
}

// x: [n], n a multiple of the widest register.
template <class V>
MR_INLINE GroupRange group_range(const float* x, int n, float limit) {
  using F = typename V::F;
  F largest = V::zero();
  F poison = V::zero();
  for (int i = 0; i < n; i += V::kWidth) {
    const F values = V::load(x + i);
    largest = V::max(V::abs(values), largest);
    poison = V::fma(values, V::zero(), poison);
  }
  return range_of(V::max_lane(largest), V::sum(poison), limit);
}

// The value as an integer, ties to even; 0 whatever a is when inverse is 0.
template <class V>
MR_INLINE typename V::I to_value(const float* a, float inverse) {
  if (inverse == 0.0f) {
    return V::zero_i();
  }
  return V::to_int(V::mul(V::load(a), V::set1(inverse)));
}

// Writes kCount values and returns their sum.
template <class V, int kCount>
MR_INLINE int32_t store_int8(const float* x, float inverse, int8_t* values) {
  auto sum = V::zero_i();
  for (int i = 0; i < kCount; i += V::kWidth) {
    const auto value = to_value<V>(x + i, inverse);
    V::store_i8(values + i, value);
    sum = V::add_i(sum, value);
  }
  return V::sum_i(sum);
}

template <class V>
void quantise_block(const float* x, Int8Block* block) {
  const GroupRange range = group_range<V>(x, 128, 127.0f);
  block->scale = range.scale;
  block->padding = 0;
  for (int g = 0; g < 4; ++g) {
    block->sums[g] =
        static_cast<int16_t>(store_int8<V, 32>(x + 32 * g, range.inverse, block->values + 32 * g));
  }
}

template <class V>
void quantise_block(const float* x, Int8Per32Block* block) {
  for (int g = 0; g < 4; ++g) {
    const GroupRange range = group_range<V>(x + 32 * g, 32, 127.0f);
    block->scales[g] = range.scale;
    block->sums[g] = store_int8<V, 32>(x + 32 * g, range.inverse, block->values + 32 * g);
  }
}

template <class V>
void quantise_block(const float* x, Int16Block* block) {
  const GroupRange range = group_range<V>(x, 128, 254.0f * 127.0f);
  block->scale = range.scale;
  memset(block->padding, 0, sizeof(block->padding));
  for (int g = 0; g < 8; ++g) {
    auto sum = V::zero_i();
    for (int i = 16 * g; i < 16 * g + 16; i += V::kWidth) {
      const auto value = to_value<V>(x + i, range.inverse);
      V::store_i16_even_odd(block->values + i, value);
      sum = V::add_i(sum, value);
    }
    block->minus_sums16[g] = -V::sum_i(sum);
  }
  for (int g = 0; g < 4; ++g) {
    block->minus_sums32[g] = block->minus_sums16[2 * g] + block->minus_sums16[2 * g + 1];
  }
}

template <class V, class Block>
void quantise_blocks(const float* x, int64_t n_in, void* row) {
  Block* block = static_cast<Block*>(row);
  int64_t k = 0;
  for (; k + kActivationBlock <= n_in; k += kActivationBlock) {
    quantise_block<V>(x + k, block++);
  }
  if (k < n_in) {
    float last[kActivationBlock] = {};
    memcpy(last, x + k, static_cast<size_t>(n_in - k) * sizeof(float));
    quantise_block<V>(last, block);
  }
}

// The kF32 row: the values, then zeros to a whole number of registers of any tier.
template <class V>
void copy_floats(const float* x, int64_t n_in, void* row) {
  float* values = static_cast<float*>(row);
  memcpy(values, x, static_cast<size_t>(n_in) * sizeof(float));
  memset(values + n_in, 0, static_cast<size_t>((16 - n_in % 16) % 16) * sizeof(float));
}

// The kBF16 row: the values to nearest even, then zeros likewise. A NaN stays one.
template <class V>
void round_to_bf16(const float* x, int64_t n_in, void* row) {
  uint16_t* values = static_cast<uint16_t*>(row);
  int64_t k = 0;
  for (; k + 16 <= n_in; k += 16) {
    for (int i = 0; i < 16; i += V::kWidth) V::store_bf16(values + k + i, V::load(x + k + i));
  }
  if (k < n_in) {
    float last[16] = {};
    memcpy(last, x + k, static_cast<size_t>(n_in - k) * sizeof(float));
    for (int i = 0; i < 16; i += V::kWidth) V::store_bf16(values + k + i, V::load(last + i));
  }
}

}  // namespace
}  // namespace millrace::kernels

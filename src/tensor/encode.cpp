#include "tensor/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/rounding.h"

namespace millrace {
namespace {

struct Extremes {
  float low = 0.0f;
  float high = 0.0f;
  float largest = 0.0f;  // the value of largest magnitude, with its sign
};

Extremes find_extremes(const float* x) {
  Extremes found{x[0], x[0], x[0]};
  for (int i = 1; i < kBlock32; ++i) {
    found.low = std::min(found.low, x[i]);
    found.high = std::max(found.high, x[i]);
  }
  found.largest = std::fabs(found.low) > found.high ? found.low : found.high;
  return found;
}

// Levels of (x - offset) / step, clamped to 0..max; everything 0 when step is 0.
void quantise_levels(const float* x, float step, float offset, float max, int* levels) {
  const float inverse = step != 0.0f ? 1.0f / step : 0.0f;
  for (int i = 0; i < kBlock32; ++i) {
    levels[i] = nearest_int(clamp((x[i] - offset) * inverse, 0.0f, max));
  }
}

void pack_low_nibbles(const int* levels, uint8_t* qs) {
  for (int i = 0; i < 16; ++i) {
    qs[i] = static_cast<uint8_t>((levels[i] & 15) | ((levels[i + 16] & 15) << 4));
  }
}

void pack_fifth_bits(const int* levels, uint8_t* qh) {
  std::memset(qh, 0, 4);
  for (int i = 0; i < kBlock32; ++i) {
    qh[i / 8] |= static_cast<uint8_t>((levels[i] >> 4) << (i % 8));
  }
}

// The symmetric formats put the value of largest magnitude on the lowest level, which is one
// further from zero than the highest: x = d (level - centre).
uint16_t quantise_symmetric(const float* values, int centre, int* levels) {
  float x[kBlock32];
  load_clean(values, x, kBlock32);
  const uint16_t d = saturated_f16(find_extremes(x).largest / static_cast<float>(-centre));
  const float step = f16_to_f32(d);
  quantise_levels(
      x, step, step * static_cast<float>(-centre), static_cast<float>(2 * centre - 1), levels);
  return d;
}

struct StepAndOffset {
  uint16_t d;
  uint16_t m;
};

// x = d level + m, level 0..max.
StepAndOffset quantise_affine(const float* values, int max, int* levels) {
  float x[kBlock32];
  load_clean(values, x, kBlock32);
  const Extremes extremes = find_extremes(x);
  const uint16_t d = saturated_f16((extremes.high - extremes.low) / static_cast<float>(max));
  const uint16_t m = saturated_f16(extremes.low);
  quantise_levels(x, f16_to_f32(d), f16_to_f32(m), static_cast<float>(max), levels);
  return {d, m};
}

}  // namespace

void encode_f32(const float* values, void* blocks, int64_t n) {
  std::memcpy(blocks, values, static_cast<size_t>(n) * sizeof(float));
}

void encode_f16(const float* values, void* blocks, int64_t n) {
  auto* halves = static_cast<uint16_t*>(blocks);
  for (int64_t i = 0; i < n; ++i) halves[i] = f32_to_f16(values[i]);
}

void encode_bf16(const float* values, void* blocks, int64_t n) {
  auto* halves = static_cast<uint16_t*>(blocks);
  for (int64_t i = 0; i < n; ++i) halves[i] = f32_to_bf16(values[i]);
}

void encode_q4_0(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ4_0*>(blocks);
  int levels[kBlock32];
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block) {
    block->d = quantise_symmetric(values + begin, 8, levels);
    pack_low_nibbles(levels, block->qs);
  }
}

void encode_q4_1(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ4_1*>(blocks);
  int levels[kBlock32];
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block) {
    const StepAndOffset fit = quantise_affine(values + begin, 15, levels);
    block->d = fit.d;
    block->m = fit.m;
    pack_low_nibbles(levels, block->qs);
  }
}

void encode_q5_0(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ5_0*>(blocks);
  int levels[kBlock32];
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block) {
    block->d = quantise_symmetric(values + begin, 16, levels);
    pack_low_nibbles(levels, block->qs);
    pack_fifth_bits(levels, block->qh);
  }
}

void encode_q5_1(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ5_1*>(blocks);
  int levels[kBlock32];
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block) {
    const StepAndOffset fit = quantise_affine(values + begin, 31, levels);
    block->d = fit.d;
    block->m = fit.m;
    pack_low_nibbles(levels, block->qs);
    pack_fifth_bits(levels, block->qh);
  }
}

void encode_q8_0(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ8_0*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block) {
    float x[kBlock32];
    load_clean(values + begin, x, kBlock32);
    block->d = saturated_f16(std::fabs(find_extremes(x).largest) / 127.0f);
    const float step = f16_to_f32(block->d);
    const float inverse = step != 0.0f ? 1.0f / step : 0.0f;
    for (int i = 0; i < kBlock32; ++i) {
      block->qs[i] = static_cast<int8_t>(nearest_int(clamp(x[i] * inverse, -127.0f, 127.0f)));
    }
  }
}

}  // namespace millrace

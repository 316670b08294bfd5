// Encoders of the 256-value blocks. Each group's scale is searched over a few candidate grids: for
// each, values are rounded to levels and the scale (and offset) of least weighted squared error for
// these levels has a closed form. Groups' scales are then rounded to the block's small integers,
// and the levels chosen again for the scales as stored.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/blocks.h"
#include "tensor/encode.h"
#include "tensor/half.h"
#include "tensor/k_scales.h"
#include "tensor/rounding.h"

namespace millrace {
namespace {

// Four partial sums side by side: the order of additions is fixed by the source on every machine.
using Lanes = float __attribute__((vector_size(16)));
constexpr int kLanes = 4;

constexpr float kSmallest = 0x1p-26f;  // no step below 2^-24 can be stored, so these become 0

Lanes load_lanes(const float* x) {
  Lanes lanes;
  std::memcpy(&lanes, x, sizeof(lanes));
  return lanes;
}

float sum_lanes(Lanes lanes) {
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

Lanes round_to_grid(Lanes x, float low, float high) {
  const Lanes lows = Lanes{} + low;
  const Lanes highs = Lanes{} + high;
  x = x > lows ? x : lows;
  x = x < highs ? x : highs;
  return (x + 12582912.0f) - 12582912.0f;
}

// Large weights matter more to the layer's output than small ones: |x| plus the group's deviation.
template <int kCount>
void weigh(const float* x, float* weights) {
  Lanes squares = {};
  for (int i = 0; i < kCount; i += kLanes) {
    const Lanes value = load_lanes(x + i);
    squares += value * value;
  }
  const float deviation = std::sqrt(sum_lanes(squares) / kCount);
  for (int i = 0; i < kCount; ++i) weights[i] = std::fabs(x[i]) + deviation;
}

// The scale of x = scale q, q in [-kCentre, kCentre - 1]. Its sign puts the largest value on
// -kCentre.
template <int kCount, int kCentre, int kSteps>
float fit_symmetric(const float* x) {
  float largest = 0.0f;
  for (int i = 0; i < kCount; ++i) {
    if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
  }
  if (std::fabs(largest) < kSmallest) return 0.0f;
  float weights[kCount];
  weigh<kCount>(x, weights);
  float best_score = -1.0f;
  float best_scale = 0.0f;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float inverse = -(kCentre + 0.1f * static_cast<float>(step)) / largest;
    Lanes xq = {};
    Lanes qq = {};
    for (int i = 0; i < kCount; i += kLanes) {
      const Lanes value = load_lanes(x + i);
      const Lanes q = round_to_grid(value * inverse, -kCentre, kCentre - 1);
      const Lanes weighted = load_lanes(weights + i) * q;
      xq += weighted * value;
      qq += weighted * q;
    }
    const float sum_xq = sum_lanes(xq);
    const float sum_qq = sum_lanes(qq);
    if (sum_qq <= 0.0f) continue;
    const float scale = sum_xq / sum_qq;
    if (sum_xq * scale > best_score) {
      best_score = sum_xq * scale;
      best_scale = scale;
    }
  }
  return best_scale;
}

struct AffineFit {
  float scale = 0.0f;  // >= 0
  float min = 0.0f;    // >= 0; x = scale q - min
};

struct WeightedSums {
  float w = 0.0f, x = 0.0f, q = 0.0f, qq = 0.0f, xq = 0.0f;
};

template <int kCount, int kMax>
WeightedSums round_and_sum(
    const float* x, const float* weights, float low, float inverse, float* levels) {
  Lanes w = {}, sx = {}, sq = {}, sqq = {}, sxq = {};
  for (int i = 0; i < kCount; i += kLanes) {
    const Lanes value = load_lanes(x + i);
    const Lanes weight = load_lanes(weights + i);
    const Lanes q = round_to_grid((value - low) * inverse, 0.0f, kMax);
    std::memcpy(levels + i, &q, sizeof(q));
    w += weight;
    sx += weight * value;
    sq += weight * q;
    sqq += weight * q * q;
    sxq += weight * value * q;
  }
  return {sum_lanes(w), sum_lanes(sx), sum_lanes(sq), sum_lanes(sqq), sum_lanes(sxq)};
}

template <int kCount>
float weighted_error(const float* x, const float* weights, const float* levels, AffineFit fit) {
  Lanes error = {};
  for (int i = 0; i < kCount; i += kLanes) {
    const Lanes decoded = fit.scale * load_lanes(levels + i) - fit.min;
    const Lanes miss = decoded - load_lanes(x + i);
    error += load_lanes(weights + i) * miss * miss;
  }
  return sum_lanes(error);
}

// The least-squares scale and min for given levels, with min kept from going below 0. When all
// levels are (nearly) the same, the two cannot be told apart and the scale alone is fitted.
AffineFit solve(const WeightedSums& sums) {
  AffineFit fit{sums.qq > 0.0f ? sums.xq / sums.qq : 0.0f, 0.0f};
  const float determinant = sums.w * sums.qq - sums.q * sums.q;
  if (determinant > 1e-5f * sums.w * sums.qq) {
    const float min = (sums.q * sums.xq - sums.qq * sums.x) / determinant;
    if (min > 0.0f) fit = {(sums.w * sums.xq - sums.x * sums.q) / determinant, min};
  }
  fit.scale = std::max(fit.scale, 0.0f);
  return fit;
}

template <int kCount, int kMax, int kSteps>
AffineFit fit_affine(const float* x) {
  const float low = std::min(0.0f, *std::min_element(x, x + kCount));
  const float high = *std::max_element(x, x + kCount);
  if (high - low < kSmallest) return {0.0f, -low};
  float weights[kCount];
  weigh<kCount>(x, weights);
  AffineFit best{(high - low) / kMax, -low};
  float best_error = 0.0f;
  for (int step = 0; step < kSteps; ++step) {
    // From slightly coarser to finer than the plain grid, on which the extremes fall on the ends.
    const float span = kMax - 0.5f + 1.5f * static_cast<float>(step) / kSteps;
    const float inverse = span / (high - low);
    float levels[kCount];
    const WeightedSums sums = round_and_sum<kCount, kMax>(x, weights, low, inverse, levels);
    const AffineFit fit = solve(sums);
    const float error = weighted_error<kCount>(x, weights, levels, fit);
    if (step == 0 || error < best_error) {
      best_error = error;
      best = fit;
    }
  }
  return best;
}

// value / unit as an integer in [low, high]; 0 when the unit is 0.
int ratio_to_int(float value, float unit, int low, int high) {
  if (unit == 0.0f) return 0;
  return nearest_int(clamp(value / unit, static_cast<float>(low), static_cast<float>(high)));
}

float inverse_or_zero(float x) {
  return x != 0.0f ? 1.0f / x : 0.0f;
}

// Levels 0..2 kCentre - 1 of sixteen groups of 16, given the stored scales.
template <int kCentre>
void choose_symmetric_levels(const float* x, const int* scales, float d, uint8_t* levels) {
  for (int group = 0; group < 16; ++group) {
    const float inverse = inverse_or_zero(d * static_cast<float>(scales[group]));
    for (int i = 16 * group; i < 16 * group + 16; ++i) {
      levels[i] =
          static_cast<uint8_t>(nearest_int(clamp(x[i] * inverse, -kCentre, kCentre - 1)) + kCentre);
    }
  }
}

template <int kMax>
void choose_affine_levels(const float* x, int n, float scale, float min, uint8_t* levels) {
  const float inverse = inverse_or_zero(scale);
  for (int i = 0; i < n; ++i) {
    levels[i] = static_cast<uint8_t>(nearest_int(clamp((x[i] + min) * inverse, 0.0f, kMax)));
  }
}

// The scales and mins of kGroups groups in units of d and dmin, each an integer up to kUnits.
template <int kGroups>
struct GroupScales {
  uint16_t d = 0;
  uint16_t dmin = 0;
  ScaleMin6 groups[kGroups] = {};
};

// Fits and rounds the groups of one block, then chooses the levels.
template <int kGroups, int kMax, int kUnits, int kSteps>
GroupScales<kGroups> quantise_affine_block(const float* values, uint8_t* levels) {
  constexpr int kCount = kBlock256 / kGroups;
  float x[kBlock256];
  load_clean(values, x, kBlock256);
  AffineFit fits[kGroups];
  float max_scale = 0.0f;
  float max_min = 0.0f;
  for (int group = 0; group < kGroups; ++group) {
    fits[group] = fit_affine<kCount, kMax, kSteps>(x + kCount * group);
    max_scale = std::max(max_scale, fits[group].scale);
    max_min = std::max(max_min, fits[group].min);
  }
  GroupScales<kGroups> result;
  result.d = saturated_f16(max_scale / kUnits);
  result.dmin = saturated_f16(max_min / kUnits);
  const float d = f16_to_f32(result.d);
  const float dmin = f16_to_f32(result.dmin);
  for (int group = 0; group < kGroups; ++group) {
    ScaleMin6& stored = result.groups[group];
    stored.scale = ratio_to_int(fits[group].scale, d, 0, kUnits);
    stored.min = ratio_to_int(fits[group].min, dmin, 0, kUnits);
    choose_affine_levels<kMax>(x + kCount * group,
                               kCount,
                               d * static_cast<float>(stored.scale),
                               dmin * static_cast<float>(stored.min),
                               levels + kCount * group);
  }
  return result;
}

// Fits and rounds sixteen groups of 16, scales in [-kUnits, kUnits - 1]; returns d.
template <int kCentre, int kUnits, int kSteps>
uint16_t quantise_symmetric_block(const float* values, int* scales, uint8_t* levels) {
  float x[kBlock256];
  load_clean(values, x, kBlock256);
  float fits[16];
  float largest = 0.0f;
  for (int group = 0; group < 16; ++group) {
    fits[group] = fit_symmetric<16, kCentre, kSteps>(x + 16 * group);
    if (std::fabs(fits[group]) > std::fabs(largest)) largest = fits[group];
  }
  const uint16_t d16 = saturated_f16(largest / -kUnits);
  const float d = f16_to_f32(d16);
  for (int group = 0; group < 16; ++group) {
    scales[group] = ratio_to_int(fits[group], d, -kUnits, kUnits - 1);
  }
  choose_symmetric_levels<kCentre>(x, scales, d, levels);
  return d16;
}

// Two bits of each level, four levels 32 apart to a byte (Q2_K, Q3_K).
void pack_two_bits(const uint8_t* levels, uint8_t* qs) {
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      const uint8_t* level = levels + 128 * half + i;
      qs[32 * half + i] = static_cast<uint8_t>((level[0] & 3) | ((level[32] & 3) << 2) |
                                               ((level[64] & 3) << 4) | ((level[96] & 3) << 6));
    }
  }
}

// Low nibbles of groups 2 c and 2 c + 1 share the 32-byte run c (Q4_K, Q5_K).
void pack_nibble_runs(const uint8_t* levels, uint8_t* qs) {
  for (int run = 0; run < 4; ++run) {
    for (int i = 0; i < 32; ++i) {
      const uint8_t* level = levels + 64 * run + i;
      qs[32 * run + i] = static_cast<uint8_t>((level[0] & 15) | ((level[32] & 15) << 4));
    }
  }
}

}  // namespace

void encode_q2_k(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ2_K*>(blocks);
  uint8_t levels[kBlock256];
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block) {
    const auto fit = quantise_affine_block<16, 3, 15, 16>(values + begin, levels);
    block->d = fit.d;
    block->dmin = fit.dmin;
    for (int group = 0; group < 16; ++group) {
      const ScaleMin6 stored = fit.groups[group];
      block->scales[group] = static_cast<uint8_t>(stored.scale | (stored.min << 4));
    }
    pack_two_bits(levels, block->qs);
  }
}

void encode_q3_k(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ3_K*>(blocks);
  uint8_t levels[kBlock256];
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block) {
    int scales[16];
    block->d = quantise_symmetric_block<4, 32, 7>(values + begin, scales, levels);
    for (int& scale : scales) scale += 32;
    pack_q3_k_scales(scales, block->scales);
    pack_two_bits(levels, block->qs);
    std::memset(block->hmask, 0, sizeof(block->hmask));
    for (int i = 0; i < kBlock256; ++i) {
      block->hmask[i % 32] |= static_cast<uint8_t>((levels[i] >> 2) << (i / 32));
    }
  }
}

void encode_q4_k(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ4_K*>(blocks);
  uint8_t levels[kBlock256];
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block) {
    const auto fit = quantise_affine_block<8, 15, 63, 9>(values + begin, levels);
    block->d = fit.d;
    block->dmin = fit.dmin;
    pack_scale_min_6(fit.groups, block->scales);
    pack_nibble_runs(levels, block->qs);
  }
}

void encode_q5_k(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ5_K*>(blocks);
  uint8_t levels[kBlock256];
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block) {
    const auto fit = quantise_affine_block<8, 31, 63, 9>(values + begin, levels);
    block->d = fit.d;
    block->dmin = fit.dmin;
    pack_scale_min_6(fit.groups, block->scales);
    pack_nibble_runs(levels, block->qs);
    std::memset(block->qh, 0, sizeof(block->qh));
    for (int i = 0; i < kBlock256; ++i) {
      block->qh[i % 32] |= static_cast<uint8_t>((levels[i] >> 4) << (i / 32));
    }
  }
}

void encode_q6_k(const float* values, void* blocks, int64_t n) {
  auto* block = static_cast<BlockQ6_K*>(blocks);
  uint8_t levels[kBlock256];
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block) {
    int scales[16];
    block->d = quantise_symmetric_block<32, 128, 4>(values + begin, scales, levels);
    for (int group = 0; group < 16; ++group) {
      block->scales[group] = static_cast<int8_t>(scales[group]);
    }
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 32; ++i) {
        const uint8_t* level = levels + 128 * half + i;
        uint8_t* ql = block->ql + 64 * half + i;
        ql[0] = static_cast<uint8_t>((level[0] & 15) | ((level[64] & 15) << 4));
        ql[32] = static_cast<uint8_t>((level[32] & 15) | ((level[96] & 15) << 4));
        block->qh[32 * half + i] =
            static_cast<uint8_t>((level[0] >> 4) | ((level[32] >> 4) << 2) |
                                 ((level[64] >> 4) << 4) | ((level[96] >> 4) << 6));
      }
    }
  }
}

}  // namespace millrace

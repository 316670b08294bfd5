#include "tensor/decode.h"

#include <cstring>

#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/k_scales.h"

namespace millrace {

void decode_f32(const void* blocks, float* values, int64_t n) {
  std::memcpy(values, blocks, static_cast<size_t>(n) * sizeof(float));
}

static uint16_t load_half(const void* halves, int64_t i) {
  uint16_t half;
  std::memcpy(&half, static_cast<const char*>(halves) + 2 * i, sizeof(half));
  return half;
}

void decode_f16(const void* blocks, float* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) values[i] = f16_to_f32(load_half(blocks, i));
}

void decode_bf16(const void* blocks, float* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) values[i] = bf16_to_f32(load_half(blocks, i));
}

void decode_q4_0(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ4_0*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block, values += kBlock32) {
    const float d = f16_to_f32(block->d);
    for (int i = 0; i < 16; ++i) {
      values[i] = d * static_cast<float>((block->qs[i] & 15) - 8);
      values[i + 16] = d * static_cast<float>((block->qs[i] >> 4) - 8);
    }
  }
}

void decode_q4_1(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ4_1*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block, values += kBlock32) {
    const float d = f16_to_f32(block->d);
    const float m = f16_to_f32(block->m);
    for (int i = 0; i < 16; ++i) {
      values[i] = d * static_cast<float>(block->qs[i] & 15) + m;
      values[i + 16] = d * static_cast<float>(block->qs[i] >> 4) + m;
    }
  }
}

// Bit i of the 32 high bits, moved to bit 4.
static int high_bit(const uint8_t* qh, int i) {
  return ((qh[i / 8] >> (i % 8)) & 1) << 4;
}

void decode_q5_0(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ5_0*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block, values += kBlock32) {
    const float d = f16_to_f32(block->d);
    for (int i = 0; i < 16; ++i) {
      const int low = (block->qs[i] & 15) | high_bit(block->qh, i);
      const int high = (block->qs[i] >> 4) | high_bit(block->qh, i + 16);
      values[i] = d * static_cast<float>(low - 16);
      values[i + 16] = d * static_cast<float>(high - 16);
    }
  }
}

void decode_q5_1(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ5_1*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block, values += kBlock32) {
    const float d = f16_to_f32(block->d);
    const float m = f16_to_f32(block->m);
    for (int i = 0; i < 16; ++i) {
      const int low = (block->qs[i] & 15) | high_bit(block->qh, i);
      const int high = (block->qs[i] >> 4) | high_bit(block->qh, i + 16);
      values[i] = d * static_cast<float>(low) + m;
      values[i + 16] = d * static_cast<float>(high) + m;
    }
  }
}

void decode_q8_0(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ8_0*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock32, ++block, values += kBlock32) {
    const float d = f16_to_f32(block->d);
    for (int i = 0; i < kBlock32; ++i) values[i] = d * static_cast<float>(block->qs[i]);
  }
}

void decode_q2_k(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ2_K*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block, values += kBlock256) {
    const float d = f16_to_f32(block->d);
    const float dmin = f16_to_f32(block->dmin);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(block->scales[group] & 15);
      const float min = dmin * static_cast<float>(block->scales[group] >> 4);
      const uint8_t* qs = block->qs + 32 * (group / 8) + 16 * (group % 2);
      const int shift = 2 * ((group / 2) % 4);
      for (int i = 0; i < 16; ++i) {
        values[16 * group + i] = scale * static_cast<float>((qs[i] >> shift) & 3) - min;
      }
    }
  }
}

void decode_q3_k(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ3_K*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block, values += kBlock256) {
    const float d = f16_to_f32(block->d);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(q3_k_scale(block->scales, group) - 32);
      const uint8_t* qs = block->qs + 32 * (group / 8) + 16 * (group % 2);
      const uint8_t* hmask = block->hmask + 16 * (group % 2);
      const int shift = 2 * ((group / 2) % 4);
      for (int i = 0; i < 16; ++i) {
        const int q = ((qs[i] >> shift) & 3) | (((hmask[i] >> (group / 2)) & 1) << 2);
        values[16 * group + i] = scale * static_cast<float>(q - 4);
      }
    }
  }
}

void decode_q4_k(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ4_K*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block, values += kBlock256) {
    const float d = f16_to_f32(block->d);
    const float dmin = f16_to_f32(block->dmin);
    for (int group = 0; group < 8; ++group) {
      const ScaleMin6 packed = scale_min_6(block->scales, group);
      const float scale = d * static_cast<float>(packed.scale);
      const float min = dmin * static_cast<float>(packed.min);
      const uint8_t* qs = block->qs + 32 * (group / 2);
      const int shift = 4 * (group % 2);
      for (int i = 0; i < 32; ++i) {
        values[32 * group + i] = scale * static_cast<float>((qs[i] >> shift) & 15) - min;
      }
    }
  }
}

void decode_q5_k(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ5_K*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block, values += kBlock256) {
    const float d = f16_to_f32(block->d);
    const float dmin = f16_to_f32(block->dmin);
    for (int group = 0; group < 8; ++group) {
      const ScaleMin6 packed = scale_min_6(block->scales, group);
      const float scale = d * static_cast<float>(packed.scale);
      const float min = dmin * static_cast<float>(packed.min);
      const uint8_t* qs = block->qs + 32 * (group / 2);
      const int shift = 4 * (group % 2);
      for (int i = 0; i < 32; ++i) {
        const int q = ((qs[i] >> shift) & 15) | (((block->qh[i] >> group) & 1) << 4);
        values[32 * group + i] = scale * static_cast<float>(q) - min;
      }
    }
  }
}

void decode_q6_k(const void* blocks, float* values, int64_t n) {
  const auto* block = static_cast<const BlockQ6_K*>(blocks);
  for (int64_t begin = 0; begin < n; begin += kBlock256, ++block, values += kBlock256) {
    const float d = f16_to_f32(block->d);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(block->scales[group]);
      const int half = group / 8;
      const int quarter = (group / 2) % 4;  // 32 values of the half
      const uint8_t* ql = block->ql + 64 * half + 32 * (quarter % 2) + 16 * (group % 2);
      const uint8_t* qh = block->qh + 32 * half + 16 * (group % 2);
      const int low_shift = 4 * (quarter / 2);
      const int high_shift = 2 * quarter;
      for (int i = 0; i < 16; ++i) {
        const int q = ((ql[i] >> low_shift) & 15) | (((qh[i] >> high_shift) & 3) << 4);
        values[16 * group + i] = scale * static_cast<float>(q - 32);
      }
    }
  }
}

}  // namespace millrace

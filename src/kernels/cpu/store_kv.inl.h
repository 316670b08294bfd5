#pragma once
// One token's K and V into a page (kv_page.h), for any register type V.

#include <string.h>

#include "kernels/attention.h"
#include "kernels/cpu/inline.h"
#include "kernels/cpu/quantise.inl.h"
#include "tensor/half.h"

namespace millrace::kernels {
namespace {

inline void store_kv_bf16(const KvWrite& write) {
  uint32_t* k = reinterpret_cast<uint32_t*>(write.page) + write.slot;
  for (int i = 0; i < write.head_dim / 2; ++i) {
    k[i * PageFormat::kTokens] =
        f32_to_bf16(write.k[2 * i]) | uint32_t{f32_to_bf16(write.k[2 * i + 1])} << 16;
  }
  uint16_t* v = reinterpret_cast<uint16_t*>(write.page + write.k_bytes);
  v += write.slot / 2 * write.v_dim * 2 + write.slot % 2;
  for (int i = 0; i < write.head_dim; ++i) v[2 * i] = f32_to_bf16(write.v[i]);
}

inline void store_kv_f32(const KvWrite& write) {
  float* k = reinterpret_cast<float*>(write.page) + write.slot;
  for (int i = 0; i < write.head_dim; ++i) k[i * PageFormat::kTokens] = write.k[i];
  float* v = reinterpret_cast<float*>(write.page + write.k_bytes) + write.slot * write.v_dim;
  for (int i = 0; i < write.head_dim; ++i) v[i] = write.v[i];
}

// group_range of any number of values.
MR_INLINE GroupRange token_range(const float* x, int n, float limit) {
  float largest = 0;
  float poison = 0;
  for (int i = 0; i < n; ++i) {
    const float magnitude = __builtin_fabsf(x[i]);
    largest = magnitude > largest ? magnitude : largest;
    poison += x[i] * 0.0f;
  }
  return range_of(largest, poison, limit);
}

inline float* slot_scale(const KvWrite& write, uint8_t* codes) {
  return reinterpret_cast<float*>(codes + PageFormat::kTokens * write.v_dim) + write.slot;
}

// codes: [v_dim], those beyond head_dim are the zero 128.
template <class V>
MR_INLINE float int8_codes(const float* x, int head_dim, int v_dim, uint8_t* codes) {
  alignas(64) float padded[kMaxInt8HeadDim] = {};
  memcpy(padded, x, static_cast<size_t>(head_dim) * sizeof(float));
  const GroupRange range = group_range<V>(padded, v_dim, 127.0f);
  for (int i = 0; i < v_dim; i += V::kWidth) {
    V::store_i8(reinterpret_cast<int8_t*>(codes) + i, to_value<V>(padded + i, range.inverse));
  }
  for (int i = 0; i < v_dim; ++i) codes[i] ^= 0x80;
  return range.scale;
}

template <class V>
void store_kv_int8(const KvWrite& write) {
  alignas(64) uint8_t codes[kMaxInt8HeadDim];
  *slot_scale(write, write.page) = int8_codes<V>(write.k, write.head_dim, write.v_dim, codes);
  for (int i = 0; i < write.v_dim; i += 4) {
    memcpy(write.page + i * PageFormat::kTokens + 4 * write.slot, codes + i, 4);
  }
  uint8_t* v = write.page + write.k_bytes;
  *slot_scale(write, v) = int8_codes<V>(write.v, write.head_dim, write.v_dim, codes);
  uint8_t* to = v + write.slot / 4 * write.v_dim * 4 + write.slot % 4;
  for (int i = 0; i < write.v_dim; ++i) to[4 * i] = codes[i];
}

// The largest magnitude becomes 448. Stored scales are 256 times those of the codes: load_e4m3
// gives a 256th.
inline void store_kv_fp8(const KvWrite& write) {
  constexpr float kLargest = 448;
  const GroupRange k = token_range(write.k, write.head_dim, kLargest);
  *slot_scale(write, write.page) = 256 * k.scale;
  for (int i = 0; i < write.head_dim; ++i) {
    write.page[i * PageFormat::kTokens + write.slot] = f32_to_e4m3(write.k[i] * k.inverse);
  }
  uint8_t* v = write.page + write.k_bytes;
  const GroupRange range = token_range(write.v, write.head_dim, kLargest);
  *slot_scale(write, v) = 256 * range.scale;
  for (int i = 0; i < write.head_dim; ++i) {
    v[write.slot * write.v_dim + i] = f32_to_e4m3(write.v[i] * range.inverse);
  }
}

}  // namespace
}  // namespace millrace::kernels

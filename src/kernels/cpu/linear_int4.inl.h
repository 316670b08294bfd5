#pragma once
// 4-bit weights with a scale and a zero point for 32, 64 or 128 k, times integer activations. What
// a group adds, sum(code * value) - zero * sum(value), is an integer and exact; it is scaled once.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/cpu/linear_int8.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

template <int kSteps>
struct Int4Block : NibbleBlock {
  int n_steps;  // groups that share a scale
  alignas(64) float scales[kSteps][kPanelRows];
  alignas(64) int32_t zeros[kSteps][kPanelRows];  // pairs: zero, and above it 128 * zero
};

// Minus the sum of the values of n groups of 32.
MR_INLINE int32_t minus_sum(const Int8Block& row, int group, int n) {
  int32_t sum = 0;
  for (int i = 0; i < n; ++i) sum -= row.sums[group + i];
  return sum;
}
MR_INLINE int32_t minus_sum(const Int16Block& row, int group, int n) {
  int32_t sum = 0;
  for (int i = 0; i < n; ++i) sum += row.minus_sums32[group + i];
  return sum;
}

// The factor for pairs of zeros: what is left over 128, and 128ths. Sums over 128 k stay in
// +-128 * 32258, so both fit 16 bits.
MR_INLINE int32_t split_sum(int32_t sum) {
  return static_cast<int32_t>(static_cast<uint32_t>(sum & 127) | static_cast<uint32_t>(sum >> 7)
                                                                     << 16);
}

// How the values of a group of 32 are multiplied: add<kDirect>() adds codes times values, for the
// lanes from `lane` on.
template <class V>
struct NibblesByInt8 {
  using Activation = Int8Block;

  template <bool kDirect, int kVectors, int kRows>
  MR_INLINE static void add(typename V::I (&sum)[kVectors][kRows],
                            const NibbleBlock& block,
                            int g,
                            int lane,
                            const TileRows& rows) {
    if constexpr (!V::kWideQuads) {
      typename V::Quads quads[kVectors][kRows];
      group_sums<V, Activation, kDirect>(quads, block, g, lane, rows);
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        MR_UNROLL for (int r = 0; r < kRows; ++r) {
          sum[v][r] = V::add_i(sum[v][r], V::quads_sum(quads[v][r]));
        }
      }
    } else if constexpr (kDirect) {
      add_direct<V, Activation>(sum, block, g, lane, rows);
    } else {
      add_unpacked<V, Activation>(sum, block, g, lane, rows);
    }
  }
};

template <class V>
struct NibblesByInt16 {
  using Activation = Int16Block;

  template <bool kDirect, int kVectors, int kRows>
  MR_INLINE static void add(typename V::I (&sum)[kVectors][kRows],
                            const NibbleBlock& block,
                            int g,
                            int lane,
                            const TileRows& rows) {
    using I = typename V::I;
    MR_UNROLL for (int quad = 0; quad < 8; ++quad) {
      I even[kVectors];
      I odd[kVectors];
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        const I code = load<kDirect>(block, g, quad, lane + v * V::kWidth, v);
        even[v] = V::even_bytes(code);
        odd[v] = V::odd_bytes(code);
      }
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const int16_t* values = record<Activation>(rows, r).values + 32 * g + 4 * quad;
        const I a02 = V::broadcast(values);
        const I a13 = V::broadcast(values + 2);
        MR_UNROLL for (int v = 0; v < kVectors; ++v) {
          sum[v][r] = V::dot2(sum[v][r], even[v], a02);
          sum[v][r] = V::dot2(sum[v][r], odd[v], a13);
        }
      }
    }
  }

 private:
  template <bool kDirect>
  MR_INLINE static typename V::I load(const NibbleBlock& block, int g, int quad, int lane, int v) {
    if constexpr (kDirect) {
      const uint8_t* line =
          block.nibbles + g * block.group_bytes + quad % 4 * (4 * kPanelRows) + 4 * lane;
      if (quad < 4) prefetch_codes<V, V::kPlanesAhead>(line, v);
      const auto both = V::load_i(line);
      const auto code = quad < 4 ? both : V::template shift_right<4>(both);
      return V::and_i(code, V::set1_i(0x0f0f0f0f));
    } else {
      return V::load_i(block.codes[g] + quad * (4 * kPanelRows) + 4 * lane);
    }
  }
};

// kGroup: the k that share a scale. Dots: NibblesByInt8 or NibblesByInt16 of V.
template <class V, PanelFormat kFormat, int kGroup, class Dots>
struct Int4Panel {
  using Activation = typename Dots::Activation;
  static constexpr int kSteps = kActivationBlock / kGroup;
  static constexpr int kGroups = kGroup / 32;
  using Block = Int4Block<kSteps>;
  static constexpr bool kUnpacks = true;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr PanelInfo kInfo = kPanelInfo[static_cast<int>(kFormat)];
    constexpr int kBlockSteps = kInfo.block_k / kGroup;
    constexpr int kGroupBytes = kQ4Planes.group_bytes();
    static_assert(kInfo.header_bytes == 3 * kBlockSteps * kPanelRows);
    static_assert(kInfo.block_bytes == kInfo.header_bytes + kInfo.block_k / 32 * kGroupBytes);
    static_assert(kInfo.header_bytes % 64 == 0 && kInfo.step_k == 32);
    const uint8_t* from = panel + k / kInfo.block_k * kInfo.block_bytes;
    const int in_block = static_cast<int>(k % kInfo.block_k);  // 0 or 128
    if (in_block == 0) prefetch_header<V::kPlanesAhead, kInfo.header_bytes>(from);
    block.nibbles = from + kInfo.header_bytes + in_block / 32 * kGroupBytes;
    block.group_bytes = kGroupBytes;
    block.n_groups = n_k / 32;
    block.n_steps = n_k / kGroup;
    const uint8_t* scales = from + in_block / kGroup * 2 * kPanelRows;
    const uint8_t* zeros = from + (2 * kBlockSteps + in_block / kGroup) * kPanelRows;
    for (int step = 0; step < block.n_steps; ++step) {
      for (int row = 0; row < kPanelRows; row += V::kWidth) {
        const int at = step * kPanelRows + row;
        const auto zero = V::load_u8(zeros + at);
        V::store(&block.scales[step][row], V::load_f16(scales + 2 * at));
        V::store_i(&block.zeros[step][row], V::or_i(zero, V::template shift_left<16 + 7>(zero)));
      }
    }
  }
  MR_INLINE static void unpack(Block& block) { unpack_groups<V>(block); }

  template <int kVectors, int kRows, bool kDirect>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    for (int step = 0; step < block.n_steps; ++step) {
      typename V::I sum[kVectors][kRows];
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const Activation& row = record<Activation>(rows, r);
        const auto minus = V::set1_i(split_sum(minus_sum(row, step * kGroups, kGroups)));
        MR_UNROLL for (int v = 0; v < kVectors; ++v) {
          const auto zeros = V::load_i(&block.zeros[step][lane + v * V::kWidth]);
          sum[v][r] = V::dot2(V::zero_i(), zeros, minus);
        }
      }
      for (int g = step * kGroups; g < (step + 1) * kGroups; ++g) {
        Dots::template add<kDirect>(sum, block, g, lane, rows);
      }
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        const auto scale = V::load(&block.scales[step][lane + v * V::kWidth]);
        MR_UNROLL for (int r = 0; r < kRows; ++r) {
          const auto row_scale = V::set1(record<Activation>(rows, r).scale);
          float* to = rows.sums + r * kPanelRows + lane + v * V::kWidth;
          const auto scaled = V::mul(V::to_float(sum[v][r]), scale);
          V::store(to, V::fma(scaled, row_scale, V::load(to)));
        }
      }
    }
  }
};

template <class V>
using Int4G32Panel = Int4Panel<V, PanelFormat::kInt4G32, 32, NibblesByInt8<V>>;
template <class V>
using Int4G64Panel = Int4Panel<V, PanelFormat::kInt4G64, 64, NibblesByInt8<V>>;
template <class V>
using Int4G128Panel = Int4Panel<V, PanelFormat::kInt4G128, 128, NibblesByInt8<V>>;
template <class V>
using FineInt4G32Panel = Int4Panel<V, PanelFormat::kInt4G32, 32, NibblesByInt16<V>>;
template <class V>
using FineInt4G64Panel = Int4Panel<V, PanelFormat::kInt4G64, 64, NibblesByInt16<V>>;
template <class V>
using FineInt4G128Panel = Int4Panel<V, PanelFormat::kInt4G128, 128, NibblesByInt16<V>>;

}  // namespace
}  // namespace millrace::kernels

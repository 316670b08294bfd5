#pragma once
// Weights of up to 8 bits times 16-bit activations: Q8_0, Q6_K and Grouped8 panels.
// Integer sums are exact over each group of 16 or 32 k (below 2^29), then scaled in float.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

template <int kGroup, bool kHasOffsets>
struct ByteBlock {
  static constexpr int kGroups = kActivationBlock / kGroup;
  const uint8_t* codes;  // [n_k / 4][32][4], group of 32 g at codes + g * group_bytes
  int64_t group_bytes;
  int n_groups;  // of 32 k
  alignas(64) float scales[kGroups][kPanelRows];
  alignas(64) float offsets[kHasOffsets ? kGroups : 1][kPanelRows];
};

// kShift: the code of weight zero is 1 << kShift; with offsets it is 0 and kShift unused.
template <class V, int kGroup, int kShift, bool kHasOffsets>
struct Int16Tile {
  using Activation = Int16Block;
  using Block = ByteBlock<kGroup, kHasOffsets>;
  static constexpr int kTileRows = V::kWidth == 16 ? 6 : 4;
  template <int kRows>
  static constexpr int vectors() {
    return kRows <= 2 ? 4 : 2;
  }

  template <int kVectors, int kRows>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    using F = typename V::F;
    using I = typename V::I;
    constexpr int kSteps = 32 / kGroup;
    F total[kVectors][kRows];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        total[v][r] = V::zero();
      }
    }
    for (int step = 0; step < block.n_groups * kSteps; ++step) {
      const uint8_t* codes = block.codes + step / kSteps * block.group_bytes +
                             step % kSteps * (kGroup * kPanelRows) + lane * 4;
      I sum[kVectors][kRows];
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const I start = start_of(record<Activation>(rows, r), step);
        MR_UNROLL for (int v = 0; v < kVectors; ++v) {
          sum[v][r] = start;
        }
      }
      add_products<kVectors, kRows>(sum, codes, rows, step * kGroup);
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        const F scale = V::load(&block.scales[step][lane + v * V::kWidth]);
        MR_UNROLL for (int r = 0; r < kRows; ++r) {
          total[v][r] = V::fma(V::to_float(sum[v][r]), scale, total[v][r]);
        }
      }
      if constexpr (kHasOffsets) {
        add_offsets<kVectors, kRows>(total, block, step, lane, rows);
      }
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const F scale = V::set1(record<Activation>(rows, r).scale);
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        float* to = rows.sums + r * kPanelRows + lane + v * V::kWidth;
        V::store(to, V::fma(total[v][r], scale, V::load(to)));
      }
    }
  }

 private:
  // Codes are q + zero: start from -zero * sum(values).
  MR_INLINE static typename V::I start_of(const Int16Block& row, int step) {
    if constexpr (kHasOffsets) {
      return V::zero_i();
    } else {
      const int32_t* minus_sum = kGroup == 16 ? row.minus_sums16 : row.minus_sums32;
      return V::template shift_left<kShift>(V::broadcast(minus_sum + step));
    }
  }

  template <int kVectors, int kRows>
  MR_INLINE static void add_products(typename V::I (&sum)[kVectors][kRows],
                                     const uint8_t* codes,
                                     const TileRows& rows,
                                     int k) {
    using I = typename V::I;
    for (int quad = 0; quad < kGroup / 4; ++quad) {
      I even[kVectors];
      I odd[kVectors];
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        const I code = V::load_i(codes + quad * (4 * kPanelRows) + v * (4 * V::kWidth));
        even[v] = V::even_bytes(code);
        odd[v] = V::odd_bytes(code);
      }
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const int16_t* values = record<Activation>(rows, r).values + k + 4 * quad;
        const I a02 = V::broadcast(values);
        const I a13 = V::broadcast(values + 2);
        MR_UNROLL for (int v = 0; v < kVectors; ++v) {
          sum[v][r] = V::dot2(sum[v][r], even[v], a02);
          sum[v][r] = V::dot2(sum[v][r], odd[v], a13);
        }
      }
    }
  }

  template <int kVectors, int kRows>
  MR_INLINE static void add_offsets(typename V::F (&total)[kVectors][kRows],
                                    const Block& block,
                                    int step,
                                    int lane,
                                    const TileRows& rows) {
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto minus_sum =
          V::to_float(V::broadcast(record<Activation>(rows, r).minus_sums16 + step));
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        const auto offset = V::load(&block.offsets[step][lane + v * V::kWidth]);
        total[v][r] = V::fnma(minus_sum, offset, total[v][r]);
      }
    }
  }
};

template <class V>
struct Q8_0Panel : Int16Tile<V, 32, 7, false> {
  using Block = ByteBlock<32, false>;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ8_0)].block_bytes;
    const uint8_t* from = panel + k / 32 * kBytes;
    block.codes = from + 2 * kPanelRows;
    block.group_bytes = kBytes;
    block.n_groups = n_k / 32;
    for (int g = 0; g < block.n_groups; ++g) {
      for (int row = 0; row < kPanelRows; row += V::kWidth) {
        V::store(&block.scales[g][row], V::load_f16(from + g * kBytes + 2 * row));
      }
    }
  }
};

template <class V>
struct Grouped8Panel : Int16Tile<V, 16, 0, true> {
  using Block = ByteBlock<16, true>;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kGrouped8)].block_bytes;
    constexpr int kScaleBytes = 2 * kPanelRows * 4;
    const uint8_t* from = panel + k / 32 * kBytes;
    block.codes = from + 2 * kScaleBytes;
    block.group_bytes = kBytes;
    block.n_groups = n_k / 32;
    for (int g = 0; g < block.n_groups; ++g, from += kBytes) {
      memcpy(block.scales[2 * g], from, kScaleBytes);
      memcpy(block.offsets[2 * g], from + kScaleBytes, kScaleBytes);
    }
  }
};

template <class V>
struct Q6_KPanel : Int16Tile<V, 16, 5, false> {
  struct Block : ByteBlock<16, false> {
    alignas(64) uint8_t unpacked[kActivationBlock * kPanelRows];
  };

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ6_K)].block_bytes;
    constexpr int kGroupBytes = 6 * kPanelRows * 4;
    const uint8_t* from = panel + k / 256 * kBytes;
    const int half = static_cast<int>(k / 128 % 2);
    block.codes = block.unpacked;
    block.group_bytes = 32 * kPanelRows;
    block.n_groups = n_k / 32;
    prepare_scales(from, from + 2 * kPanelRows + half * 8 * kPanelRows, block);
    const uint8_t* groups = from + 18 * kPanelRows + half * 4 * kGroupBytes;
    for (int g = 0; g < 4; ++g) {
      unpack_group(groups + g * kGroupBytes, block.unpacked + g * block.group_bytes);
    }
  }

 private:
  // scale of 16 k = d * small integer: exact in float.
  MR_INLINE static void prepare_scales(const uint8_t* d, const uint8_t* scales, Block& block) {
    for (int row = 0; row < kPanelRows; row += V::kWidth) {
      const auto d_row = V::load_f16(d + 2 * row);
      for (int g = 0; g < 8; ++g) {
        const auto scale = V::to_float(V::load_i8(scales + g * kPanelRows + row));
        V::store(&block.scales[g][row], V::mul(d_row, scale));
      }
    }
  }

  // Nibbles [4][32][4] and bit pairs [2][32][4] -> codes [8][32][4].
  MR_INLINE static void unpack_group(const uint8_t* from, uint8_t* codes) {
    constexpr int kQuad = 4 * kPanelRows;
    const auto nibble = V::set1_i(0x0f0f0f0f);
    const auto pair = V::set1_i(0x30303030);
    const auto store = [&](int quad, int at, typename V::I low, typename V::I high) {
      V::store_i(codes + quad * kQuad + at, V::or_i(V::and_i(low, nibble), V::and_i(high, pair)));
    };
    for (int at = 0; at < kQuad; at += 4 * V::kWidth) {
      for (int p = 0; p < 2; ++p) {
        const auto first = V::load_i(from + (2 * p) * kQuad + at);
        const auto second = V::load_i(from + (2 * p + 1) * kQuad + at);
        const auto bits = V::load_i(from + (4 + p) * kQuad + at);
        store(2 * p, at, first, V::template shift_left<4>(bits));
        store(2 * p + 4, at, V::template shift_right<4>(first), V::template shift_left<2>(bits));
        store(2 * p + 1, at, second, bits);
        store(2 * p + 5, at, V::template shift_right<4>(second), V::template shift_right<2>(bits));
      }
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

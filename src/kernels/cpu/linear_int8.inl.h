#pragma once
// 4-bit weights times 8-bit activations: Q4_0 and Q4_K panels.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

// 128 k of nibbles, and where unpack_groups leaves them as bytes.
struct NibbleBlock {
  const uint8_t* nibbles;  // group g at nibbles + g * group_bytes: [4][32][4]
  int64_t group_bytes;
  int n_groups;
  alignas(64) uint8_t codes[4][32 * kPanelRows];  // [8][32][4] a group
};

template <class V>
MR_INLINE void unpack_groups(NibbleBlock& block) {
  constexpr int kHalf = 16 * kPanelRows;
  const auto mask = V::set1_i(0x0f0f0f0f);
  for (int g = 0; g < block.n_groups; ++g) {
    const uint8_t* from = block.nibbles + g * block.group_bytes;
    for (int at = 0; at < kHalf; at += 4 * V::kWidth) {
      prefetch_codes<V, V::kPlanesAhead>(from + at, at / (4 * V::kWidth));
      const auto both = V::load_i(from + at);
      V::store_i(block.codes[g] + at, V::and_i(both, mask));
      V::store_i(block.codes[g] + kHalf + at, V::and_i(V::template shift_right<4>(both), mask));
    }
  }
}

// sum += codes of group g, lanes from `lane` on, times the rows' values of that group.
template <class V, class Activation, int kVectors, int kRows>
MR_INLINE void add_unpacked(typename V::Quads (&sum)[kVectors][kRows],
                            const NibbleBlock& block,
                            int g,
                            int lane,
                            const TileRows& rows) {
  using I = typename V::I;
  const uint8_t* codes = block.codes[g] + 4 * lane;
  MR_UNROLL for (int quad = 0; quad < 8; ++quad) {
    I code[kVectors];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      code[v] = V::load_i(codes + quad * (4 * kPanelRows) + v * (4 * V::kWidth));
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const I values = V::broadcast(record<Activation>(rows, r).values + 32 * g + 4 * quad);
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        sum[v][r] = V::dot4(sum[v][r], code[v], values);
      }
    }
  }
}

// The same from the nibbles.
template <class V, class Activation, int kVectors, int kRows>
MR_INLINE void add_direct(typename V::Quads (&sum)[kVectors][kRows],
                          const NibbleBlock& block,
                          int g,
                          int lane,
                          const TileRows& rows) {
  using I = typename V::I;
  const uint8_t* nibbles = block.nibbles + g * block.group_bytes + 4 * lane;
  const I mask = V::set1_i(0x0f0f0f0f);
  MR_UNROLL for (int quad = 0; quad < 4; ++quad) {
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      const uint8_t* at = nibbles + quad * (4 * kPanelRows) + v * (4 * V::kWidth);
      prefetch_codes<V, V::kPlanesAhead>(at, v);
      const I both = V::load_i(at);
      const I low = V::and_i(both, mask);
      const I high = V::and_i(V::template shift_right<4>(both), mask);
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const int8_t* values = record<Activation>(rows, r).values + 32 * g + 4 * quad;
        sum[v][r] = V::dot4(sum[v][r], low, V::broadcast(values));
        sum[v][r] = V::dot4(sum[v][r], high, V::broadcast(values + 16));
      }
    }
  }
}

template <class V, class Activation, bool kDirect, int kVectors, int kRows>
MR_INLINE void group_sums(typename V::Quads (&sum)[kVectors][kRows],
                          const NibbleBlock& block,
                          int g,
                          int lane,
                          const TileRows& rows) {
  MR_UNROLL for (int v = 0; v < kVectors; ++v) {
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      sum[v][r] = V::quads_zero();
    }
  }
  if constexpr (kDirect) {
    add_direct<V, Activation>(sum, block, g, lane, rows);
  } else {
    add_unpacked<V, Activation>(sum, block, g, lane, rows);
  }
}

template <class V>
struct Q4_0Panel {
  using Activation = Int8Per32Block;
  static constexpr bool kUnpacks = true;
  struct Block : NibbleBlock {
    alignas(64) float scales[4][kPanelRows];
  };

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ4_0)].block_bytes;
    block.nibbles = panel + k / 32 * kBytes + 2 * kPanelRows;
    block.group_bytes = kBytes;
    block.n_groups = n_k / 32;
    for (int g = 0; g < block.n_groups; ++g) {
      prefetch_header<V::kPlanesAhead, 2 * kPanelRows>(block.nibbles + g * kBytes - 2 * kPanelRows);
    }
  }
  MR_INLINE static void unpack(Block& block) {
    unpack_groups<V>(block);
    for (int g = 0; g < block.n_groups; ++g) {
      for (int lane = 0; lane < kPanelRows; lane += V::kWidth) {
        V::store(&block.scales[g][lane], panel_scale(block, g, lane));
      }
    }
  }

  template <int kVectors, int kRows, bool kDirect>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    using F = typename V::F;
    F total[kVectors][kRows];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        total[v][r] = V::load(rows.sums + r * kPanelRows + lane + v * V::kWidth);
      }
    }
    for (int g = 0; g < block.n_groups; ++g) {
      typename V::Quads sum[kVectors][kRows];
      group_sums<V, Activation, kDirect>(sum, block, g, lane, rows);
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const Activation& row = record<Activation>(rows, r);
        const F row_scale = V::set1(row.scales[g]);
        const auto eight_sums = V::template shift_left<3>(V::broadcast(&row.sums[g]));
        MR_UNROLL for (int v = 0; v < kVectors; ++v) {
          const F weight_scale = scale_of<kDirect>(block, g, lane + v * V::kWidth);
          const F scale = V::mul(weight_scale, row_scale);
          const auto exact = V::sub_i(V::quads_sum(sum[v][r]), eight_sums);
          total[v][r] = V::fma(V::to_float(exact), scale, total[v][r]);
        }
      }
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        V::store(rows.sums + r * kPanelRows + lane + v * V::kWidth, total[v][r]);
      }
    }
  }

 private:
  MR_INLINE static typename V::F panel_scale(const Block& block, int g, int lane) {
    return V::load_f16(block.nibbles + g * block.group_bytes + 2 * (lane - kPanelRows));
  }
  template <bool kDirect>
  MR_INLINE static typename V::F scale_of(const Block& block, int g, int lane) {
    if constexpr (kDirect) {
      return panel_scale(block, g, lane);
    } else {
      return V::load(&block.scales[g][lane]);
    }
  }
};

template <class V>
struct Q4_KPanel {
  using Activation = Int8Block;
  static constexpr bool kUnpacks = true;
  struct Block : NibbleBlock {
    alignas(64) float d[kPanelRows];
    alignas(64) float dmin[kPanelRows];
    alignas(64) int32_t scales[4][kPanelRows];  // as V::GroupScale
    alignas(64) int32_t mins[2][kPanelRows];    // of two groups, 16 bits each
  };

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int /*n_k*/, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ4_K)].block_bytes;
    const uint8_t* from = panel + k / 256 * kBytes;
    const int half = static_cast<int>(k / 128 % 2);
    for (int row = 0; row < kPanelRows; row += V::kWidth) {
      V::store(block.d + row, V::load_f16(from + 2 * row));
      V::store(block.dmin + row, V::load_f16(from + 2 * (kPanelRows + row)));
    }
    const uint8_t* low = from + 4 * kPanelRows + half * 4 * kPanelRows;
    const uint8_t* high = from + 12 * kPanelRows;
    if (half == 0) {
      prefetch_header<V::kPlanesAhead, 16 * kPanelRows>(from);
      prepare_scales<0>(low, high, block);
    } else {
      prepare_scales<4>(low, high, block);
    }
    block.group_bytes = 16 * kPanelRows;
    block.nibbles = from + 16 * kPanelRows + half * 4 * block.group_bytes;
    block.n_groups = 4;
  }
  MR_INLINE static void unpack(Block& block) { unpack_groups<V>(block); }

  template <int kVectors, int kRows, bool kDirect>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    typename V::ScaledSum total[kVectors][kRows];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        total[v][r] = V::scaled_zero();
      }
    }
    for (int g = 0; g < 4; ++g) {
      typename V::Quads sum[kVectors][kRows];
      group_sums<V, Activation, kDirect>(sum, block, g, lane, rows);
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        const auto scale = V::load_group_scale(&block.scales[g][lane + v * V::kWidth]);
        MR_UNROLL for (int r = 0; r < kRows; ++r) {
          total[v][r] = V::add_scaled(total[v][r], sum[v][r], scale);
        }
      }
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const Activation& row = record<Activation>(rows, r);
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        float* to = rows.sums + r * kPanelRows + lane + v * V::kWidth;
        finish(block, lane + v * V::kWidth, row, total[v][r], to);
      }
    }
  }

 private:
  // to += a_scale * (d * sum(scale * codes * values) - dmin * sum(min * values)).
  MR_INLINE static void finish(
      const Block& block, int lane, const Int8Block& row, typename V::ScaledSum total, float* to) {
    auto mins = V::dot2(V::zero_i(), V::load_i(&block.mins[0][lane]), V::broadcast(row.sums));
    mins = V::dot2(mins, V::load_i(&block.mins[1][lane]), V::broadcast(row.sums + 2));
    const auto scaled = V::mul(V::scaled_to_float(total), V::load(block.d + lane));
    const auto product = V::fnma(V::to_float(mins), V::load(block.dmin + lane), scaled);
    V::store(to, V::fma(product, V::set1(row.scale), V::load(to)));
  }

  // The four groups whose low nibbles are at `low`; their high bits start at bit kBit.
  template <int kBit>
  MR_INLINE static void prepare_scales(const uint8_t* low, const uint8_t* high, Block& block) {
    for (int row = 0; row < kPanelRows; row += V::kWidth) {
      typename V::I mins[4];
      MR_UNROLL for (int g = 0; g < 4; ++g) {
        const auto scale_min = scale_min_6<V, kBit>(low, high, g * kPanelRows + row);
        V::store_group_scale(&block.scales[g][row], V::group_scale(scale_min.scale));
        mins[g] = scale_min.min;
      }
      for (int pair = 0; pair < 2; ++pair) {
        V::store_i(&block.mins[pair][row],
                   V::or_i(mins[2 * pair], V::template shift_left<16>(mins[2 * pair + 1])));
      }
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

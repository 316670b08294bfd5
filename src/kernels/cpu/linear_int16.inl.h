#pragma once
// Weights of up to 8 bits times 16-bit activations: Q8_0, Q6_K and Grouped8 panels, and Q4_0 and
// Q4_K panels where the activations are to be rounded finely.
// Integer sums are exact over each group of 16 or 32 k (below 2^29), then scaled in float.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

// 128 k of 8-bit codes with a scale, and perhaps an offset, per kGroup k and row.
template <int kGroup, bool kHasOffsets>
struct ByteBlock {
  static constexpr int kGroups = kActivationBlock / kGroup;
  const uint8_t* codes;  // [8][32][4] per 32 k, at codes + group * group_bytes
  int64_t group_bytes;
  int n_groups;  // of 32 k
  alignas(64) float scales[kGroups][kPanelRows];
  alignas(64) float offsets[kHasOffsets ? kGroups : 1][kPanelRows];
};

template <bool kFirst, class A, class B>
struct Chosen {
  using Type = A;
};
template <class A, class B>
struct Chosen<false, A, B> {
  using Type = B;
};
template <bool kFirst, class A, class B>
using Choose = typename Chosen<kFirst, A, B>::Type;

// Reads the codes of quad kQuad of the kStep-th kGroup values of a group of 32, for one register of
// rows: register v of a tile, from `lane` on. kPrefetch: they come from the panel.
template <class V, int kGroup, bool kPrefetch>
struct ByteCodes {
  template <int kStep, int kQuad, class Block>
  MR_INLINE static typename V::I load(const Block& block, int group, int lane, int v) {
    constexpr int kAt = kStep * (kGroup / 4) + kQuad;
    const uint8_t* from =
        block.codes + group * block.group_bytes + kAt * (4 * kPanelRows) + 4 * lane;
    if constexpr (kPrefetch) {
      prefetch_codes<V>(from, v);
    }
    return V::load_i(from);
  }
};

// kShift: the code of weight zero is 1 << kShift; with offsets it is 0 and kShift unused.
// DirectCodes reads codes for direct tiles, ByteCodes what was unpacked.
template <class V,
          int kGroup,
          int kShift,
          bool kHasOffsets,
          class DirectCodes = ByteCodes<V, kGroup, true>>
struct Int16Tile {
  using Activation = Int16Block;

  template <int kVectors, int kRows, bool kDirect, class Block>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    using F = typename V::F;
    using Codes = Choose<kDirect, DirectCodes, ByteCodes<V, kGroup, false>>;
    F total[kVectors][kRows];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        total[v][r] = V::zero();
      }
    }
    for (int group = 0; group < block.n_groups; ++group) {
      add_step<Codes, 0>(total, block, group, lane, rows);
      if constexpr (kSteps == 2) {
        add_step<Codes, 1>(total, block, group, lane, rows);
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
  static constexpr int kSteps = 32 / kGroup;

  template <class Codes, int kStep, int kVectors, int kRows, class Block>
  MR_INLINE static void add_step(typename V::F (&total)[kVectors][kRows],
                                 const Block& block,
                                 int group,
                                 int lane,
                                 const TileRows& rows) {
    using I = typename V::I;
    const int step = group * kSteps + kStep;
    I sum[kVectors][kRows];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const I start = start_of(record<Activation>(rows, r), step);
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        sum[v][r] = start;
      }
    }
    add_quads<Codes, kStep, 0>(sum, block, group, lane, rows);
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      const auto scale = V::load(&block.scales[step][lane + v * V::kWidth]);
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        total[v][r] = V::fma(V::to_float(sum[v][r]), scale, total[v][r]);
      }
    }
    if constexpr (kHasOffsets) {
      add_offsets(total, block, step, lane, rows);
    }
  }

  // Codes are q + zero: start from -zero * sum(values).
  MR_INLINE static typename V::I start_of(const Int16Block& row, int step) {
    if constexpr (kHasOffsets) {
      return V::zero_i();
    } else {
      return V::template shift_left<kShift>(sum_of(row, step));
    }
  }

  // Minus the sum of the step's values.
  MR_INLINE static typename V::I sum_of(const Int16Block& row, int step) {
    return V::broadcast((kGroup == 16 ? row.minus_sums16 : row.minus_sums32) + step);
  }

  // Quad kQuad of the step and those after it.
  template <class Codes, int kStep, int kQuad, int kVectors, int kRows, class Block>
  MR_INLINE static void add_quads(typename V::I (&sum)[kVectors][kRows],
                                  const Block& block,
                                  int group,
                                  int lane,
                                  const TileRows& rows) {
    using I = typename V::I;
    I even[kVectors];
    I odd[kVectors];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      const I code = Codes::template load<kStep, kQuad>(block, group, lane + v * V::kWidth, v);
      even[v] = V::even_bytes(code);
      odd[v] = V::odd_bytes(code);
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const int16_t* values =
          record<Activation>(rows, r).values + 32 * group + kGroup * kStep + 4 * kQuad;
      const I a02 = V::broadcast(values);
      const I a13 = V::broadcast(values + 2);
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        sum[v][r] = V::dot2(sum[v][r], even[v], a02);
        sum[v][r] = V::dot2(sum[v][r], odd[v], a13);
      }
    }
    if constexpr (kQuad + 1 < kGroup / 4) {
      add_quads<Codes, kStep, kQuad + 1>(sum, block, group, lane, rows);
    }
  }

  template <int kVectors, int kRows, class Block>
  MR_INLINE static void add_offsets(typename V::F (&total)[kVectors][kRows],
                                    const Block& block,
                                    int step,
                                    int lane,
                                    const TileRows& rows) {
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto minus_sum = V::to_float(sum_of(record<Activation>(rows, r), step));
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
  static constexpr bool kUnpacks = false;

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
  static constexpr bool kUnpacks = false;

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

// Group of 32 k: nibbles [4][32][4], bit pairs [2][32][4].
constexpr int kQ6_KGroupBytes = 6 * 4 * kPanelRows;

template <class V>
struct Q6_KCodes {
  // Quad kQuad of the first (0) or second (1) 16 k.
  template <int kStep, int kQuad, class Block>
  MR_INLINE static typename V::I load(const Block& block, int group, int lane, int v) {
    constexpr int kQuadBytes = 4 * kPanelRows;
    constexpr int kBit = 4 * (kQuad % 2) + 2 * kStep;  // where the pair is in its byte
    const uint8_t* from = block.packed + group * kQ6_KGroupBytes + 4 * lane;
    if constexpr (kStep == 0 || kQuad < 2) {  // six lines' worth in eight quads
      prefetch_codes<V>(from + (4 * kStep + kQuad) * kQuadBytes, v);
    }
    auto low = V::load_i(from + kQuad * kQuadBytes);
    if constexpr (kStep == 1) {
      low = V::template shift_right<4>(low);
    }
    auto high = V::load_i(from + (4 + kQuad / 2) * kQuadBytes);
    if constexpr (kBit < 4) {
      high = V::template shift_left<4 - kBit>(high);
    } else if constexpr (kBit > 4) {
      high = V::template shift_right<kBit - 4>(high);
    }
    return V::or_i(V::and_i(low, V::set1_i(0x0f0f0f0f)), V::and_i(high, V::set1_i(0x30303030)));
  }
};

template <class V>
struct Q6_KPanel : Int16Tile<V, 16, 5, false, Q6_KCodes<V>> {
  static constexpr bool kUnpacks = true;
  struct Block : ByteBlock<16, false> {
    const uint8_t* packed;
    alignas(64) uint8_t unpacked[kActivationBlock * kPanelRows];
  };

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ6_K)].block_bytes;
    const uint8_t* from = panel + k / 256 * kBytes;
    const int half = static_cast<int>(k / 128 % 2);
    block.codes = block.unpacked;
    block.group_bytes = 32 * kPanelRows;
    block.n_groups = n_k / 32;
    block.packed = from + 18 * kPanelRows + half * 4 * kQ6_KGroupBytes;
    prepare_scales(from, from + 2 * kPanelRows + half * 8 * kPanelRows, block);
  }

  MR_INLINE static void unpack(Block& block) {
    for (int group = 0; group < 4; ++group) {
      for (int lane = 0; lane < kPanelRows; lane += V::kWidth) {
        unpack_quads<0, 0>(block, group, lane);
        unpack_quads<1, 0>(block, group, lane);
      }
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

  template <int kStep, int kQuad>
  MR_INLINE static void unpack_quads(Block& block, int group, int lane) {
    uint8_t* to = block.unpacked + group * block.group_bytes;
    V::store_i(to + (4 * kStep + kQuad) * (4 * kPanelRows) + 4 * lane,
               Q6_KCodes<V>::template load<kStep, kQuad>(block, group, lane, 0));
    if constexpr (kQuad < 3) {
      unpack_quads<kStep, kQuad + 1>(block, group, lane);
    }
  }
};

// Group of 32 k: nibbles [4][32][4], at nibbles + group * nibble_bytes.
template <bool kHasOffsets>
struct FineNibbleBlock : ByteBlock<32, kHasOffsets> {
  const uint8_t* nibbles;
  int64_t nibble_bytes;
  alignas(64) uint8_t unpacked[kActivationBlock * kPanelRows];
};

template <class V>
struct NibbleCodes {
  template <int kStep, int kQuad, class Block>
  MR_INLINE static typename V::I load(const Block& block, int group, int lane, int v) {
    const uint8_t* from =
        block.nibbles + group * block.nibble_bytes + kQuad % 4 * (4 * kPanelRows) + 4 * lane;
    auto both = V::load_i(from);
    if constexpr (kQuad < 4) {
      prefetch_codes<V>(from, v);
    } else {
      both = V::template shift_right<4>(both);
    }
    return V::and_i(both, V::set1_i(0x0f0f0f0f));
  }
};

template <class V, bool kHasOffsets>
struct FineNibblePanel : Int16Tile<V, 32, 3, kHasOffsets, NibbleCodes<V>> {
  static constexpr bool kUnpacks = true;
  using Block = FineNibbleBlock<kHasOffsets>;

  MR_INLINE static void unpack(Block& block) {
    constexpr int kHalf = 16 * kPanelRows;
    const auto mask = V::set1_i(0x0f0f0f0f);
    for (int g = 0; g < block.n_groups; ++g) {
      const uint8_t* from = block.nibbles + g * block.nibble_bytes;
      uint8_t* to = block.unpacked + g * 2 * kHalf;
      for (int at = 0; at < kHalf; at += 4 * V::kWidth) {
        const auto both = V::load_i(from + at);
        V::store_i(to + at, V::and_i(both, mask));
        V::store_i(to + kHalf + at, V::and_i(V::template shift_right<4>(both), mask));
      }
    }
  }

 protected:
  MR_INLINE static void point_at(const uint8_t* nibbles,
                                 int64_t nibble_bytes,
                                 int n_groups,
                                 Block& block) {
    block.nibbles = nibbles;
    block.nibble_bytes = nibble_bytes;
    block.n_groups = n_groups;
    block.codes = block.unpacked;
    block.group_bytes = 32 * kPanelRows;
  }
};

template <class V>
struct FineQ4_0Panel : FineNibblePanel<V, false> {
  using Block = FineNibbleBlock<false>;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ4_0)].block_bytes;
    const uint8_t* from = panel + k / 32 * kBytes;
    FineQ4_0Panel::point_at(from + 2 * kPanelRows, kBytes, n_k / 32, block);
    for (int g = 0; g < block.n_groups; ++g) {
      for (int row = 0; row < kPanelRows; row += V::kWidth) {
        V::store(&block.scales[g][row], V::load_f16(from + g * kBytes + 2 * row));
      }
    }
  }
};

template <class V>
struct FineQ4_KPanel : FineNibblePanel<V, true> {
  using Block = FineNibbleBlock<true>;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int /*n_k*/, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ4_K)].block_bytes;
    constexpr int kGroupBytes = 16 * kPanelRows;
    const uint8_t* from = panel + k / 256 * kBytes;
    const int half = static_cast<int>(k / 128 % 2);
    FineQ4_KPanel::point_at(from + kGroupBytes + half * 4 * kGroupBytes, kGroupBytes, 4, block);
    const uint8_t* low = from + 4 * kPanelRows + half * 4 * kPanelRows;
    const uint8_t* high = from + 12 * kPanelRows;
    if (half == 0) {
      prepare_scales<0>(from, low, high, block);
    } else {
      prepare_scales<4>(from, low, high, block);
    }
  }

 private:
  // w = d * scale * code - dmin * min; both products are exact in float.
  template <int kBit>
  MR_INLINE static void prepare_scales(const uint8_t* d,
                                       const uint8_t* low,
                                       const uint8_t* high,
                                       Block& block) {
    for (int row = 0; row < kPanelRows; row += V::kWidth) {
      const auto d_row = V::load_f16(d + 2 * row);
      const auto minus_dmin = V::sub(V::zero(), V::load_f16(d + 2 * (kPanelRows + row)));
      MR_UNROLL for (int g = 0; g < 4; ++g) {
        const auto scale_min = scale_min_6<V, kBit>(low, high, g * kPanelRows + row);
        V::store(&block.scales[g][row], V::mul(d_row, V::to_float(scale_min.scale)));
        V::store(&block.offsets[g][row], V::mul(minus_dmin, V::to_float(scale_min.min)));
      }
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

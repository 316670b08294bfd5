#pragma once
// Weights of up to 8 bits times 16-bit activations: the tile, and Q8_0 panels.
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

// Reads what a block has for one register of rows, from `lane` on: scale and offset of a step, and
// the codes of quad kQuad of the kStep-th kGroup values of a group of 32.
template <class V, int kGroup>
struct BlockReader {
  template <class Block>
  MR_INLINE static typename V::F scale(const Block& block, int step, int lane) {
    return V::load(&block.scales[step][lane]);
  }
  template <class Block>
  MR_INLINE static typename V::F offset(const Block& block, int step, int lane) {
    return V::load(&block.offsets[step][lane]);
  }

  template <int kStep, int kQuad, class Block>
  MR_INLINE static typename V::I load(const Block& block, int group, int lane, int /*v*/) {
    constexpr int kAt = kStep * (kGroup / 4) + kQuad;
    return V::load_i(block.codes + group * block.group_bytes + kAt * (4 * kPanelRows) + 4 * lane);
  }
};

// kShift: the code of weight zero is 1 << kShift; with offsets it is 0 and kShift unused.
// DirectReader reads for direct tiles, BlockReader what was unpacked. Register v of a tile.
template <class V, int kGroup, int kShift, bool kHasOffsets, class DirectReader>
struct Int16Tile {
  using Activation = Int16Block;

  template <int kVectors, int kRows, bool kDirect, class Block>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    using F = typename V::F;
    using Reader = Choose<kDirect, DirectReader, BlockReader<V, kGroup>>;
    F total[kVectors][kRows];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        total[v][r] = V::zero();
      }
    }
    for (int group = 0; group < block.n_groups; ++group) {
      add_step<Reader, 0>(total, block, group, lane, rows);
      if constexpr (kSteps == 2) {
        add_step<Reader, 1>(total, block, group, lane, rows);
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

  template <class Reader, int kStep, int kVectors, int kRows, class Block>
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
    add_quads<Reader, kStep, 0>(sum, block, group, lane, rows);
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      const auto scale = Reader::scale(block, step, lane + v * V::kWidth);
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        total[v][r] = V::fma(V::to_float(sum[v][r]), scale, total[v][r]);
      }
    }
    if constexpr (kHasOffsets) {
      add_offsets<Reader>(total, block, step, lane, rows);
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
  template <class Reader, int kStep, int kQuad, int kVectors, int kRows, class Block>
  MR_INLINE static void add_quads(typename V::I (&sum)[kVectors][kRows],
                                  const Block& block,
                                  int group,
                                  int lane,
                                  const TileRows& rows) {
    using I = typename V::I;
    I even[kVectors];
    I odd[kVectors];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      const I code = Reader::template load<kStep, kQuad>(block, group, lane + v * V::kWidth, v);
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
      add_quads<Reader, kStep, kQuad + 1>(sum, block, group, lane, rows);
    }
  }

  template <class Reader, int kVectors, int kRows, class Block>
  MR_INLINE static void add_offsets(typename V::F (&total)[kVectors][kRows],
                                    const Block& block,
                                    int step,
                                    int lane,
                                    const TileRows& rows) {
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto minus_sum = V::to_float(sum_of(record<Activation>(rows, r), step));
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        const auto offset = Reader::offset(block, step, lane + v * V::kWidth);
        total[v][r] = V::fnma(minus_sum, offset, total[v][r]);
      }
    }
  }
};

// Straight from the panel, in the order in which it lies.
template <class V>
struct Q8_0Reader {
  template <class Block>
  MR_INLINE static typename V::F scale(const Block& block, int group, int lane) {
    return V::load_f16(block.codes + group * block.group_bytes + 2 * (lane - kPanelRows));
  }
  template <int kStep, int kQuad, class Block>
  MR_INLINE static typename V::I load(const Block& block, int group, int lane, int v) {
    const uint8_t* from =
        block.codes + group * block.group_bytes + kQuad * (4 * kPanelRows) + 4 * lane;
    prefetch_codes<V, V::kBytesAhead>(from, v);
    return V::load_i(from);
  }
};

template <class V>
struct Q8_0Panel : Int16Tile<V, 32, 7, false, Q8_0Reader<V>> {
  struct Block {
    const uint8_t* codes;
    int64_t group_bytes;
    int n_groups;
  };
  static constexpr bool kUnpacks = false;  // codes are bytes already

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ8_0)].block_bytes;
    block.codes = panel + k / 32 * kBytes + 2 * kPanelRows;
    block.group_bytes = kBytes;
    block.n_groups = n_k / 32;
    for (int group = 0; group < block.n_groups; ++group) {
      prefetch_header<V::kBytesAhead, 2 * kPanelRows>(block.codes + group * kBytes -
                                                      2 * kPanelRows);
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

#pragma once
// E4M3 weights times f32 activations. Sums run over 128 k, the columns that share a scale, and join
// the row's total with it. Codes are decoded exactly, as 1/256 of their values: so that they are
// the bits of halves, which instructions expand.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

constexpr PanelInfo kFp8Info = kPanelInfo[static_cast<int>(PanelFormat::kFP8_E4M3)];
constexpr int kFp8PairBytes = 2 * kPanelRows;  // two k of all rows
constexpr float kFp8Unit = 256.0f;             // of decoded codes

struct Fp8Block {
  const uint8_t* codes;  // [n_k / 2][32][2], a missing last code is zero
  const float* scales;   // [32]
  int n_k;
};

// Of the block from k on; scales are asked for ahead here, codes where they are read.
template <class V>
MR_INLINE void point_at_fp8(const uint8_t* panel, int64_t k, int n_k, Fp8Block& block) {
  static_assert(kFp8Info.block_k == kActivationBlock && kFp8Info.step_k == 2);
  static_assert(kFp8Info.header_bytes == 4 * kPanelRows);
  static_assert(kFp8Info.block_bytes == 4 * kPanelRows + kActivationBlock * kPanelRows);
  const uint8_t* from = panel + k / kActivationBlock * kFp8Info.block_bytes;
  prefetch_header<V::kBytesAhead, 4 * kPanelRows>(from);
  block.scales = reinterpret_cast<const float*>(from);
  block.codes = from + 4 * kPanelRows;
  block.n_k = n_k;
}

// total += sum * scale, for the rows of panel and activations of a tile.
template <class V, int kVectors, int kRows>
MR_INLINE void add_fp8_sums(const typename V::F (&sum)[kVectors][kRows],
                            const Fp8Block& block,
                            int lane,
                            const TileRows& rows) {
  const auto unit = V::set1(kFp8Unit);
  MR_UNROLL for (int v = 0; v < kVectors; ++v) {
    const auto scale = V::load(block.scales + lane + v * V::kWidth);
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      float* to = rows.sums + r * kPanelRows + lane + v * V::kWidth;
      V::store(to, V::fma(V::mul(sum[v][r], unit), scale, V::load(to)));
    }
  }
}

template <class V>
struct Fp8Panel {
  using Activation = FloatRecord;
  struct Block : Fp8Block {
    alignas(64) float unpacked[kActivationBlock][kPanelRows];
  };
  static constexpr bool kUnpacks = true;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    point_at_fp8<V>(panel, k, n_k, block);
  }
  MR_INLINE static void unpack(Block& block) {
    for (int k = 0; k < block.n_k; k += 2) {
      const uint8_t* codes = block.codes + k / 2 * kFp8PairBytes;
      prefetch_header<V::kBytesAhead, kFp8PairBytes>(codes);
      for (int lane = 0; lane < kPanelRows; lane += 2 * V::kWidth) {
        typename V::F first[2];
        typename V::F second[2];
        V::load_e4m3_pairs(codes + 2 * lane, first, second);
        MR_UNROLL for (int i = 0; i < 2; ++i) {
          V::store(&block.unpacked[k][lane + i * V::kWidth], first[i]);
          V::store(&block.unpacked[k + 1][lane + i * V::kWidth], second[i]);
        }
      }
    }
  }

  template <int kVectors, int kRows, bool kDirect>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    using F = typename V::F;
    static_assert(kVectors % 2 == 0, "pairs are decoded for two registers of rows");
    F sum[kVectors][kRows];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) sum[v][r] = V::zero();
    }
    for (int k = 0; k < block.n_k; k += 2) {
      F first[kVectors / 2][2];
      F second[kVectors / 2][2];
      load<kDirect>(block, k, lane, first, second);
      add_k(sum, first, rows, k);
      add_k(sum, second, rows, k + 1);
    }
    add_fp8_sums<V>(sum, block, lane, rows);
  }

 private:
  // The weights of k and k + 1.
  template <bool kDirect, int kPairs>
  MR_INLINE static void load(const Block& block,
                             int k,
                             int lane,
                             typename V::F (&first)[kPairs][2],
                             typename V::F (&second)[kPairs][2]) {
    const uint8_t* codes = block.codes + k / 2 * kFp8PairBytes + 2 * lane;
    if constexpr (kDirect) {
      if (lane == 0) prefetch_header<V::kBytesAhead, kFp8PairBytes>(codes);
    }
    MR_UNROLL for (int pair = 0; pair < kPairs; ++pair) {
      if constexpr (kDirect) {
        V::load_e4m3_pairs(codes + pair * (4 * V::kWidth), first[pair], second[pair]);
      } else {
        MR_UNROLL for (int i = 0; i < 2; ++i) {
          const int at = lane + (2 * pair + i) * V::kWidth;
          first[pair][i] = V::load(&block.unpacked[k][at]);
          second[pair][i] = V::load(&block.unpacked[k + 1][at]);
        }
      }
    }
  }

  template <int kPairs, int kVectors, int kRows>
  MR_INLINE static void add_k(typename V::F (&sum)[kVectors][kRows],
                              const typename V::F (&weight)[kPairs][2],
                              const TileRows& rows,
                              int k) {
    typename V::F a[kRows];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      a[r] = V::set1(record<FloatRecord>(rows, r).values[k]);
    }
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        sum[v][r] = V::fma(weight[v / 2][v % 2], a[r], sum[v][r]);
      }
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

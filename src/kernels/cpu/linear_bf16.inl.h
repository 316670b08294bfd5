#pragma once
// BF16 weights times BF16 activations, by dot products of pairs. Sums run over 128 k, then join the
// row's total, as those of linear_float.inl.h.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

template <class V>
struct Bf16Panel {
  using Activation = Bf16Record;
  struct Block {
    const uint8_t* weights;
    int n_pairs;
  };
  static constexpr bool kUnpacks = false;
  static constexpr int kPairBytes = 4 * kPanelRows;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    block.weights = panel + k / 2 * kPairBytes;
    block.n_pairs = (n_k + 1) / 2;
  }

  template <int kVectors, int kRows, bool kDirect>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    using F = typename V::F;
    F sum[kVectors][kRows];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) sum[v][r] = V::zero();
    }
    const uint8_t* weights = block.weights + 4 * lane;
    for (int pair = 0; pair < block.n_pairs; ++pair, weights += kPairBytes) {
      prefetch_header<V::kBytesAhead, 4 * kVectors * V::kWidth>(weights);
      typename V::I weight[kVectors];
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        weight[v] = V::load_i(weights + 4 * v * V::kWidth);
      }
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto a = V::broadcast(record<Bf16Record>(rows, r).values + 2 * pair);
        MR_UNROLL for (int v = 0; v < kVectors; ++v) {
          sum[v][r] = V::dot_bf16(sum[v][r], weight[v], a);
        }
      }
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        float* to = rows.sums + r * kPanelRows + lane + v * V::kWidth;
        V::store(to, V::add(V::load(to), sum[v][r]));
      }
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

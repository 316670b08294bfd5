#pragma once
// F32, F16 and BF16 weights times f32 activations. Sums run over 128 k, then join the row's total:
// two levels keep the rounding error of long rows down.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

struct FloatBlock {
  const uint8_t* weights;
  int n_k;
};

// A Codec says how many k share one 32-bit or 16-bit step of the panel, and reads a register of
// rows:
//   kStep, kStepBytes     k and bytes of all 32 rows
//   load<i>(step, lane)   weights of k + i for kWidth rows
template <class V>
struct F32Codec {
  static constexpr int kStep = 1;
  static constexpr int kStepBytes = 4 * kPanelRows;
  template <int kWhich>
  MR_INLINE static typename V::F load(const uint8_t* step, int lane) {
    return V::load(reinterpret_cast<const float*>(step) + lane);
  }
};

template <class V>
struct F16Codec {
  static constexpr int kStep = 1;
  static constexpr int kStepBytes = 2 * kPanelRows;
  template <int kWhich>
  MR_INLINE static typename V::F load(const uint8_t* step, int lane) {
    return V::load_f16(step + 2 * lane);
  }
};

template <class V>
struct BF16Codec {
  static constexpr int kStep = 2;
  static constexpr int kStepBytes = 4 * kPanelRows;
  template <int kWhich>
  MR_INLINE static typename V::F load(const uint8_t* step, int lane) {
    const auto pairs = V::load_i(step + 4 * lane);
    return kWhich == 0 ? V::low_bf16(pairs) : V::high_bf16(pairs);
  }
};

template <class V, class Codec>
struct FloatPanel {
  using Activation = FloatRecord;
  using Block = FloatBlock;
  static constexpr bool kUnpacks = false;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    block.weights = panel + k / Codec::kStep * Codec::kStepBytes;
    block.n_k = n_k;
  }

  template <int kVectors, int kRows, bool kDirect>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    using F = typename V::F;
    constexpr int kLaneBytes = Codec::kStepBytes / kPanelRows;
    constexpr int kTileBytes = kLaneBytes * kVectors * V::kWidth;
    F sum[kVectors][kRows];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        sum[v][r] = V::zero();
      }
    }
    const uint8_t* weights = block.weights;
    for (int k = 0; k < block.n_k; k += Codec::kStep, weights += Codec::kStepBytes) {
      prefetch_header<V::kBytesAhead, kTileBytes>(weights + lane * kLaneBytes);
      add_k<0, kVectors, kRows>(sum, weights, lane, rows, k);
      if constexpr (Codec::kStep == 2) {
        add_k<1, kVectors, kRows>(sum, weights, lane, rows, k + 1);
      }
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        float* to = rows.sums + r * kPanelRows + lane + v * V::kWidth;
        V::store(to, V::add(V::load(to), sum[v][r]));
      }
    }
  }

 private:
  template <int kWhich, int kVectors, int kRows>
  MR_INLINE static void add_k(typename V::F (&sum)[kVectors][kRows],
                              const uint8_t* weights,
                              int lane,
                              const TileRows& rows,
                              int k) {
    typename V::F a[kRows];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      a[r] = V::set1(record<FloatRecord>(rows, r).values[k]);
    }
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      const auto weight = Codec::template load<kWhich>(weights, lane + v * V::kWidth);
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        sum[v][r] = V::fma(weight, a[r], sum[v][r]);
      }
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

#pragma once
// E4M3 weights times BF16 activations, by dot products of pairs: E4M3 is exact in BF16. Sums run
// over 128 k and join the row's total with their scale, as those of linear_fp8.inl.h.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/cpu/linear_fp8.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

template <class V>
struct Fp8Bf16Panel {
  using Activation = Bf16Record;
  struct Block : Fp8Block {
    alignas(64) uint32_t unpacked[kActivationBlock / 2][kPanelRows];
  };
  static constexpr bool kUnpacks = true;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    point_at_fp8<V>(panel, k, n_k, block);
  }
  MR_INLINE static void unpack(Block& block) {
    for (int pair = 0; pair < (block.n_k + 1) / 2; ++pair) {
      const uint8_t* codes = block.codes + pair * kFp8PairBytes;
      prefetch_header<V::kBytesAhead, kFp8PairBytes>(codes);
      MR_UNROLL for (int lane = 0; lane < kPanelRows; lane += V::kWidth) {
        V::store_i(&block.unpacked[pair][lane], V::load_e4m3_bf16(codes + 2 * lane));
      }
    }
  }

  template <int kVectors, int kRows, bool kDirect>
  MR_INLINE static void tile(const Block& block, int lane, const TileRows& rows) {
    typename V::F sum[kVectors][kRows];
    MR_UNROLL for (int v = 0; v < kVectors; ++v) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) sum[v][r] = V::zero();
    }
    for (int pair = 0; pair < (block.n_k + 1) / 2; ++pair) {
      typename V::I weight[kVectors];
      MR_UNROLL for (int v = 0; v < kVectors; ++v) {
        weight[v] = load<kDirect>(block, pair, lane + v * V::kWidth);
      }
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto a = V::broadcast(record<Bf16Record>(rows, r).values + 2 * pair);
        MR_UNROLL for (int v = 0; v < kVectors; ++v) {
          sum[v][r] = V::dot_bf16(sum[v][r], weight[v], a);
        }
      }
    }
    add_fp8_sums<V>(sum, block, lane, rows);
  }

 private:
  template <bool kDirect>
  MR_INLINE static typename V::I load(const Block& block, int pair, int lane) {
    if constexpr (kDirect) {
      const uint8_t* codes = block.codes + pair * kFp8PairBytes;
      if (lane == 0) prefetch_header<V::kBytesAhead, kFp8PairBytes>(codes);
      return V::load_e4m3_bf16(codes + 2 * lane);
    } else {
      return V::load_i(&block.unpacked[pair][lane]);
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

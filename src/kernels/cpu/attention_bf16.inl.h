#pragma once
// Attention over bf16 pages that adds up values by dot products of bf16 pairs: weights are rounded
// once a row and page, and summed as they are multiplied, so that they add up to 1. Scores are
// those of FloatAttention, with queries as they are (docs/adr/0002 has what rounding them costs).

#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/inline.h"

namespace millrace::kernels {
namespace {

template <class V>
struct Bf16Attention {
  MR_INLINE static void begin(const AttentionJob&, const Scratch&) {}

  template <int kRows>
  static PageAhead attend_page(const AttentionJob& job,
                               const uint8_t* page,
                               int64_t start,
                               int row,
                               PageAhead ahead,
                               const Scratch& s) {
    const PageRows<kRows> rows(job, start, row, s);
    const uint8_t* v = page + job.k_bytes;
    const int n_last = rows.n_valid[kRows - 1];
    score_tile<V, Bf16Page<V>, kRows>(rows.q, page, job.head_dim, n_last, ahead, s.scores);
    const int16_t* weights[kRows];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      int16_t* own = s.weights + r * kPage;
      soften_row<V>(rows.scores[r],
                    rows.n_valid[r],
                    s.rows[row + r],
                    rows.output[r],
                    job.v_dim,
                    [own](int token, typename V::F exact) {
                      V::store_bf16(own + token, exact);
                      return V::low_bf16(V::bf16_bits(exact));
                    });
      weights[r] = own;
    }
    const int n_shared = rows.n_valid[0] / 2;
    mix<kRows>(weights, v, job.v_dim, n_shared, ahead, rows.output);
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      if (rows.n_valid[r] == 2 * n_shared) continue;
      mix_row_end(weights[r], v, job.v_dim, n_shared, rows.n_valid[r], rows.output[r]);
    }
    return ahead;
  }

 private:
  template <int kRows>
  MR_INLINE static void mix(const int16_t* const* weights,
                            const uint8_t* v,
                            int v_dim,
                            int n_pairs,
                            PageAhead& ahead,
                            float* const* output) {
    constexpr int kVectors = tile_vectors<V, kRows>();
    int dim = 0;
    for (; dim + kVectors * V::kWidth <= v_dim; dim += kVectors * V::kWidth) {
      mix_dims<kRows, kVectors>(weights, v, v_dim, n_pairs, dim, ahead, output);
    }
    for (; dim < v_dim; dim += V::kWidth) {
      mix_dims<kRows, 1>(weights, v, v_dim, n_pairs, dim, ahead, output);
    }
  }

  template <int kRows, int kVectors>
  MR_INLINE static void mix_dims(const int16_t* const* weights,
                                 const uint8_t* v,
                                 int v_dim,
                                 int n_pairs,
                                 int dim,
                                 PageAhead& ahead,
                                 float* const* output) {
    typename V::F sum[kRows][kVectors];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int n = 0; n < kVectors; ++n) {
        sum[r][n] = V::load(output[r] + dim + n * V::kWidth);
      }
    }
    v += 4 * dim;
    for (int pair = 0; pair < n_pairs; ++pair, v += 4 * v_dim) {
      typename V::I values[kVectors];
      MR_UNROLL for (int n = 0; n < kVectors; ++n) values[n] = V::load_i(v + n * 4 * V::kWidth);
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto weight = V::broadcast(weights[r] + 2 * pair);
        MR_UNROLL for (int n = 0; n < kVectors; ++n) {
          sum[r][n] = V::dot_bf16(sum[r][n], values[n], weight);
        }
      }
      ahead.template ask<4 * kVectors * V::kWidth>();
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int n = 0; n < kVectors; ++n) {
        V::store(output[r] + dim + n * V::kWidth, sum[r][n]);
      }
    }
  }

  // The tokens of one row from pair `first_pair` on. The value beside the last token of an odd
  // number may be another sequence's, and 0 times infinity is not 0: it is masked.
  MR_INLINE static void mix_row_end(const int16_t* weights,
                                    const uint8_t* v,
                                    int v_dim,
                                    int first_pair,
                                    int n_valid,
                                    float* output) {
    PageAhead none;
    const int n_pairs = n_valid / 2 - first_pair;
    const int16_t* from = weights + 2 * first_pair;
    mix<1>(&from, v + first_pair * 4 * v_dim, v_dim, n_pairs, none, &output);
    if (n_valid % 2 == 0) return;
    const auto first_of_pair = V::set1_i(0xffff);
    const auto weight = V::broadcast(weights + n_valid - 1);  // and 0
    const uint8_t* last = v + n_valid / 2 * 4 * v_dim;
    for (int dim = 0; dim < v_dim; dim += V::kWidth) {
      const auto values = V::and_i(V::load_i(last + 4 * dim), first_of_pair);
      V::store(output + dim, V::dot_bf16(V::load(output + dim), values, weight));
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

#pragma once
// Attention over int8 pages: queries and weights are rounded to 16 bits, once a row and once a row
// and page, sums of their products with the codes are exact integers. A token that a row does not
// see has weight 0, which makes its codes, whatever they are, count nothing.

#include <string.h>

#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/inline.h"
#include "kernels/cpu/quantise.inl.h"

namespace millrace::kernels {
namespace {

// Sums stay below 2^31 for kMaxInt8HeadDim dims: 256 * 255 * 2^14 and their start at most half.
constexpr float kInt16Limit = 16384;

// x: [n] floats, n a multiple of 16, become values in the order that even and odd bytes of a quad
// want. Gives the scale, and the start -128 * sum of the values.
template <class V>
MR_INLINE RowQuery round_to_int16(const float* x, int n, int16_t* values) {
  const GroupRange range = group_range<V>(x, n, kInt16Limit);
  auto sum = V::zero_i();
  for (int i = 0; i < n; i += V::kWidth) {
    const auto value = to_value<V>(x + i, range.inverse);
    V::store_i16_even_odd(values + i, value);
    sum = V::add_i(sum, value);
  }
  return {range.scale, -128 * V::sum_i(sum)};
}

// sum[r][n] += over n_quads quads of codes times x[r]; register n of lanes at codes + 4 n kWidth,
// quads `stride` bytes apart.
template <class V, int kRows, int kVectors>
MR_INLINE void add_quads(const int16_t* const* x,
                         const uint8_t* codes,
                         int64_t stride,
                         int n_quads,
                         PageAhead& ahead,
                         typename V::I (&sum)[kRows][kVectors]) {
  using I = typename V::I;
  for (int quad = 0; quad < n_quads; ++quad, codes += stride) {
    I even[kVectors], odd[kVectors];
    MR_UNROLL for (int n = 0; n < kVectors; ++n) {
      const I code = V::load_i(codes + n * 4 * V::kWidth);
      even[n] = V::even_bytes(code);
      odd[n] = V::odd_bytes(code);
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const I x02 = V::broadcast(x[r] + 4 * quad);
      const I x13 = V::broadcast(x[r] + 4 * quad + 2);
      MR_UNROLL for (int n = 0; n < kVectors; ++n) {
        sum[r][n] = V::dot2(sum[r][n], even[n], x02);
        sum[r][n] = V::dot2(sum[r][n], odd[n], x13);
      }
    }
    ahead.template ask<4 * kVectors * V::kWidth>();
  }
}

template <class V>
struct Int8Attention {
  static void begin(const AttentionJob& job, const Scratch& s) {
    alignas(64) float padded[kMaxInt8HeadDim] = {};
    for (int row = 0; row < job.n_tokens * job.n_heads; ++row) {
      const float* q = job.q + row / job.n_heads * job.q_stride + row % job.n_heads * job.head_dim;
      memcpy(padded, q, static_cast<size_t>(job.head_dim) * sizeof(float));
      s.factors[row] = round_to_int16<V>(padded, job.v_dim, s.queries + row * job.v_dim);
    }
  }

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
    const int16_t* q[kRows];
    const int16_t* weights[kRows];
    RowQuery factors[kRows];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      q[r] = s.queries + (row + r) * job.v_dim;
      factors[r] = s.factors[row + r];
    }
    score<kRows>(q, factors, page, scales_before(v), job.v_dim / 4, n_last, ahead, s.scores);
    const float* scales = scales_before(page_end(job, page));
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      int16_t* own = s.weights + r * kPage;
      soften_row<V>(rows.scores[r], rows.n_valid[r], s.rows[row + r], rows.output[r], job.v_dim);
      weigh(rows.scores[r], scales, rows.n_valid[r]);
      factors[r] = round_to_int16<V>(rows.scores[r], kPage, own);
      weights[r] = own;
    }
    mix<kRows>(weights, factors, v, job.v_dim, (n_last + 3) / 4, ahead, rows.output);
    return ahead;
  }

 private:
  template <int kRows>
  MR_INLINE static void score(const int16_t* const* q,
                              const RowQuery* factors,
                              const uint8_t* k,
                              const float* scales,
                              int n_quads,
                              int n_tokens,
                              PageAhead& ahead,
                              float* scores) {
    using F = typename V::F;
    constexpr int kVectors = tile_vectors<V, kRows>();
    for (int token = 0; token < n_tokens; token += kVectors * V::kWidth) {
      typename V::I sum[kRows][kVectors];
      start_sums<kRows, kVectors>(factors, sum);
      add_quads<V, kRows, kVectors>(q, k + 4 * token, 4 * kPage, n_quads, ahead, sum);
      MR_UNROLL for (int n = 0; n < kVectors; ++n) {
        const int at = token + n * V::kWidth;
        const F key_scale = V::load(scales + at);
        MR_UNROLL for (int r = 0; r < kRows; ++r) {
          const F scale = V::mul(key_scale, V::set1(factors[r].scale));
          V::store(scores + r * kPage + at, V::mul(V::to_float(sum[r][n]), scale));
        }
      }
    }
  }

  // Weights times the scales of the values; 0 for tokens that the row does not see.
  MR_INLINE static void weigh(float* weights, const float* scales, int n_valid) {
    const auto index = V::load(kLaneIndex);
    for (int token = 0; token < kPage; token += V::kWidth) {
      const auto valid = V::set1(static_cast<float>(n_valid - token));
      const auto product = V::mul(V::load(weights + token), V::load(scales + token));
      V::store(weights + token, V::select_less(index, valid, product, V::zero()));
    }
  }

  template <int kRows>
  MR_INLINE static void mix(const int16_t* const* weights,
                            const RowQuery* factors,
                            const uint8_t* v,
                            int v_dim,
                            int n_quads,
                            PageAhead& ahead,
                            float* const* output) {
    constexpr int kVectors = tile_vectors<V, kRows>();
    int dim = 0;
    for (; dim + kVectors * V::kWidth <= v_dim; dim += kVectors * V::kWidth) {
      mix_dims<kRows, kVectors>(weights, factors, v, v_dim, n_quads, dim, ahead, output);
    }
    for (; dim < v_dim; dim += V::kWidth) {
      mix_dims<kRows, 1>(weights, factors, v, v_dim, n_quads, dim, ahead, output);
    }
  }

  template <int kRows, int kVectors>
  MR_INLINE static void mix_dims(const int16_t* const* weights,
                                 const RowQuery* factors,
                                 const uint8_t* v,
                                 int v_dim,
                                 int n_quads,
                                 int dim,
                                 PageAhead& ahead,
                                 float* const* output) {
    typename V::I sum[kRows][kVectors];
    start_sums<kRows, kVectors>(factors, sum);
    add_quads<V, kRows, kVectors>(weights, v + 4 * dim, 4 * v_dim, n_quads, ahead, sum);
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto scale = V::set1(factors[r].scale);
      MR_UNROLL for (int n = 0; n < kVectors; ++n) {
        float* to = output[r] + dim + n * V::kWidth;
        V::store(to, V::fma(V::to_float(sum[r][n]), scale, V::load(to)));
      }
    }
  }

  template <int kRows, int kVectors>
  MR_INLINE static void start_sums(const RowQuery* factors, typename V::I (&sum)[kRows][kVectors]) {
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int n = 0; n < kVectors; ++n) sum[r][n] = V::set1_i(factors[r].start);
    }
  }
};

}  // namespace
}  // namespace millrace::kernels

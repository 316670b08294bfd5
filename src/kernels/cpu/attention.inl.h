#pragma once
// Flash attention over KV pages, for any register type V. A row of scores, its softmax and its
// output are computed by the same operations in the same order whatever rows share the tile: rows
// only share loads of K and V.

#include "kernels/attention.h"
#include "kernels/cpu/inline.h"
#include "kernels/cpu/math.inl.h"

namespace millrace::kernels {
namespace {

constexpr int kPage = PageFormat::kTokens;
constexpr float kMinusInfinity = -__builtin_inff();
alignas(64) constexpr float kLaneIndex[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// What is left to ask for of the page that comes next. The pages of a sequence lie far from each
// other and a tile reads parts of lines, so the processor's own prefetch has nothing to follow.
struct PageAhead {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;

  // As much as a loop has just read of this page, at least a cache line.
  template <int kBytes>
  MR_INLINE void ask() {
    if (at >= end) return;
    MR_UNROLL for (int line = 0; line < (kBytes + 63) / 64; ++line) {
      __builtin_prefetch(at, 0, kNear);
      at += 64;
    }
  }

 private:
  static constexpr int kNear = 2;  // the second-level cache: this page fills the first
};

// Two registers of a page: dims 2i and 2i + 1 of K for kWidth tokens from `token` on, or tokens 2i
// and 2i + 1 of V for kWidth dims from `dim` on.
template <class V>
struct Bf16Page {
  static constexpr int kPairBytes = 4 * V::kWidth;
  static constexpr bool kHasScales = false;
  struct Pair {
    typename V::F first, second;
  };
  MR_INLINE static Pair keys(const uint8_t* k, int i, int token) {
    return split(k + 4 * (i * kPage + token));
  }
  MR_INLINE static Pair values(const uint8_t* v, int i, int dim, int v_dim) {
    return split(v + 4 * (i * v_dim + dim));
  }
  MR_INLINE static Pair split(const uint8_t* words) {
    const typename V::I pairs = V::load_i(words);
    return {V::low_bf16(pairs), V::high_bf16(pairs)};
  }
};

template <class V>
struct F32Page {
  static constexpr int kPairBytes = 8 * V::kWidth;
  static constexpr bool kHasScales = false;
  struct Pair {
    typename V::F first, second;
  };
  MR_INLINE static Pair keys(const uint8_t* k, int i, int token) {
    return load(k, 2 * i * kPage + token, kPage);
  }
  MR_INLINE static Pair values(const uint8_t* v, int i, int dim, int v_dim) {
    return load(v, 2 * i * v_dim + dim, v_dim);
  }
  MR_INLINE static Pair load(const uint8_t* base, int at, int stride) {
    const float* p = reinterpret_cast<const float*>(base) + at;
    return {V::load(p), V::load(p + stride)};
  }
};

template <class V>
struct Fp8Page {
  static constexpr int kPairBytes = 2 * V::kWidth;
  static constexpr bool kHasScales = true;
  struct Pair {
    typename V::F first, second;
  };
  MR_INLINE static Pair keys(const uint8_t* k, int i, int token) {
    const uint8_t* at = k + 2 * i * kPage + token;
    return {V::load_e4m3(at), V::load_e4m3(at + kPage)};
  }
  MR_INLINE static Pair values(const uint8_t* v, int i, int dim, int v_dim) {
    const uint8_t* at = v + 2 * i * v_dim + dim;
    return {V::load_e4m3(at), V::load_e4m3(at + v_dim)};
  }
};

// The scales of a page's 64 tokens, behind the codes that end there.
MR_INLINE const float* scales_before(const uint8_t* end) {
  return reinterpret_cast<const float*>(end) - kPage;
}
MR_INLINE const uint8_t* page_end(const AttentionJob& job, const uint8_t* page) {
  return page + 2 * job.k_bytes;  // with scales, V takes what K takes
}

// Registers side by side in a tile of kRows rows: enough independent sums to hide the latency of an
// fma, few enough to stay in registers (16 of them at 8 lanes, 32 at 16 lanes).
template <class V, int kRows>
constexpr int tile_vectors() {
  if (V::kWidth == 16) return 4;
  return kRows == 1 ? 8 : kRows == 2 ? 4 : 2;
}

// What one row has seen of the chunk so far. `output` is relative to 2^peak.
struct RowState {
  float peak;
  float sum;
  float total_peak;  // of the chunks before
  float total_sum;
};

// A query as integers: q = scale * value.
struct RowQuery {
  float scale;
  int32_t start;  // what sums of codes times values begin with, for codes whose zero is 128
};

struct Scratch {
  RowState* rows;     // [kAttentionRows]
  float* output;      // [kAttentionRows, v_dim], of the chunk
  float* total;       // [kAttentionRows, v_dim], of the chunks before
  float* scores;      // [4, kPage]
  int16_t* queries;   // [kAttentionRows, v_dim]
  RowQuery* factors;  // [kAttentionRows], of the queries
  int16_t* weights;   // [4, kPage]: scores as integers or bf16
};

// sum[r][n] += x[r][2i] * pair(n).first + x[r][2i + 1] * pair(n).second, in this order. How the
// loops nest is a matter of registers alone: few rows keep their factors, more rows keep the pairs.
template <class V, int kRows, int kVectors, class Pairs>
MR_INLINE void add_pair(const float* const* x,
                        int i,
                        const Pairs& pair,
                        typename V::F (&sum)[kRows][kVectors]) {
  using F = typename V::F;
  if constexpr (kRows <= 2) {
    F first[kRows], second[kRows];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      first[r] = V::set1(x[r][2 * i]);
      second[r] = V::set1(x[r][2 * i + 1]);
    }
    MR_UNROLL for (int n = 0; n < kVectors; ++n) {
      const auto values = pair(n);
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        sum[r][n] = V::fma(first[r], values.first, sum[r][n]);
        sum[r][n] = V::fma(second[r], values.second, sum[r][n]);
      }
    }
  } else {
    F first[kVectors], second[kVectors];
    MR_UNROLL for (int n = 0; n < kVectors; ++n) {
      const auto values = pair(n);
      first[n] = values.first;
      second[n] = values.second;
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const F factor = V::set1(x[r][2 * i]);
      MR_UNROLL for (int n = 0; n < kVectors; ++n) sum[r][n] = V::fma(factor, first[n], sum[r][n]);
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const F factor = V::set1(x[r][2 * i + 1]);
      MR_UNROLL for (int n = 0; n < kVectors; ++n) sum[r][n] = V::fma(factor, second[n], sum[r][n]);
    }
  }
}

// scores[r][token] = q row r . k token, for tokens 0 .. n_tokens rounded up to whole tiles.
template <class V, class Page, int kRows>
MR_INLINE void score_tile(const float* const* q,
                          const uint8_t* k,
                          int head_dim,
                          int n_tokens,
                          PageAhead& ahead,
                          float* scores) {
  using F = typename V::F;
  constexpr int kVectors = tile_vectors<V, kRows>();
  for (int token = 0; token < n_tokens; token += kVectors * V::kWidth) {
    F sum[kRows][kVectors];
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int n = 0; n < kVectors; ++n) sum[r][n] = V::zero();
    }
    for (int i = 0; i < head_dim / 2; ++i) {
      const auto keys = [&](int n) { return Page::keys(k, i, token + n * V::kWidth); };
      add_pair<V, kRows, kVectors>(q, i, keys, sum);
      ahead.template ask<kVectors * Page::kPairBytes>();
    }
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      MR_UNROLL for (int n = 0; n < kVectors; ++n) {
        V::store(scores + r * kPage + token + n * V::kWidth, sum[r][n]);
      }
    }
  }
}

// Gives the weights 2^(score - peak) of the first n_valid scores to keep(token, weights), a
// register at a time, and updates peak and sum by what it returns. Behind n_valid, up to a whole
// register, weights are 0. Returns the factor for what has been summed before.
template <class V, class Keep>
MR_INLINE float soften(float* scores, int n_valid, RowState& state, const Keep& keep) {
  using F = typename V::F;
  const F index = V::load(kLaneIndex);
  F peaks = V::set1(kMinusInfinity);
  for (int token = 0; token < n_valid; token += V::kWidth) {
    const F valid = V::set1(static_cast<float>(n_valid - token));
    const F masked = V::select_less(index, valid, V::load(scores + token), V::set1(kMinusInfinity));
    V::store(scores + token, masked);
    peaks = V::max(peaks, masked);
  }
  const float page_peak = V::max_lane(peaks);
  const float peak = page_peak > state.peak ? page_peak : state.peak;
  F sums = V::zero();
  for (int token = 0; token < n_valid; token += V::kWidth) {
    const F p = exp2<V>(V::sub(V::load(scores + token), V::set1(peak)));
    sums = V::add(sums, keep(token, p));
  }
  const float factor = peak == state.peak ? 1.0f : V::max_lane(exp2<V>(V::set1(state.peak - peak)));
  state.sum = state.sum * factor + V::sum(sums);
  state.peak = peak;
  return factor;
}

// output[r][dims] += p[r][token] * v[token][dims] for whole pairs of tokens, in order.
template <class V, class Page, int kRows, int kVectors>
MR_INLINE void mix_dims(const float* const* p,
                        const uint8_t* v,
                        int v_dim,
                        int dim,
                        int first_pair,
                        int end_pair,
                        PageAhead& ahead,
                        float* const* output) {
  using F = typename V::F;
  F sum[kRows][kVectors];
  MR_UNROLL for (int r = 0; r < kRows; ++r) {
    MR_UNROLL for (int n = 0; n < kVectors; ++n) sum[r][n] =
        V::load(output[r] + dim + n * V::kWidth);
  }
  for (int i = first_pair; i < end_pair; ++i) {
    const auto values = [&](int n) { return Page::values(v, i, dim + n * V::kWidth, v_dim); };
    add_pair<V, kRows, kVectors>(p, i, values, sum);
    ahead.template ask<kVectors * Page::kPairBytes>();
  }
  MR_UNROLL for (int r = 0; r < kRows; ++r) {
    MR_UNROLL for (int n = 0; n < kVectors; ++n)
        V::store(output[r] + dim + n * V::kWidth, sum[r][n]);
  }
}

template <class V, class Page, int kRows>
MR_INLINE void mix_tile(const float* const* p,
                        const uint8_t* v,
                        int v_dim,
                        int first_pair,
                        int end_pair,
                        PageAhead& ahead,
                        float* const* output) {
  constexpr int kVectors = tile_vectors<V, kRows>();
  int dim = 0;
  for (; dim + kVectors * V::kWidth <= v_dim; dim += kVectors * V::kWidth) {
    mix_dims<V, Page, kRows, kVectors>(p, v, v_dim, dim, first_pair, end_pair, ahead, output);
  }
  for (; dim < v_dim; dim += V::kWidth) {
    mix_dims<V, Page, kRows, 1>(p, v, v_dim, dim, first_pair, end_pair, ahead, output);
  }
}

// The tokens of one row from pair `first_pair` on. Tokens beyond n_valid are never read: a page may
// hold another sequence's old values there, and 0 times infinity is not 0.
template <class V, class Page>
MR_INLINE void mix_row_end(
    const float* p, const uint8_t* v, int v_dim, int first_pair, int n_valid, float* output) {
  PageAhead none;
  mix_tile<V, Page, 1>(&p, v, v_dim, first_pair, n_valid / 2, none, &output);
  if (n_valid % 2 == 0) return;
  for (int dim = 0; dim < v_dim; dim += V::kWidth) {
    const auto values = Page::values(v, n_valid / 2, dim, v_dim);
    const auto sum = V::load(output + dim);
    V::store(output + dim, V::fma(V::set1(p[n_valid - 1]), values.first, sum));
  }
}

// What rows row .. row + kRows - 1 of a job have of a page that starts at token `start`. All of
// them see at least one token of it, later rows at least as much as earlier ones.
template <int kRows>
struct PageRows {
  const float* q[kRows];
  float* scores[kRows];
  float* output[kRows];
  int n_valid[kRows];

  MR_INLINE PageRows(const AttentionJob& job, int64_t start, int row, const Scratch& s) {
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      const int token = (row + r) / job.n_heads;
      q[r] = job.q + token * job.q_stride + (row + r) % job.n_heads * job.head_dim;
      scores[r] = s.scores + r * kPage;
      output[r] = s.output + (row + r) * job.v_dim;
      const int64_t n_seen = job.position + token + 1 - start;
      n_valid[r] = n_seen < kPage ? static_cast<int>(n_seen) : kPage;
    }
  }
};

// Scores become weights (see soften), and what was summed before is brought to the new peak.
template <class V, class Keep>
MR_INLINE void soften_row(
    float* scores, int n_valid, RowState& state, float* output, int v_dim, const Keep& keep) {
  const float factor = soften<V>(scores, n_valid, state, keep);
  if (factor == 1.0f) return;
  for (int dim = 0; dim < v_dim; dim += V::kWidth) {
    V::store(output + dim, V::mul(V::load(output + dim), V::set1(factor)));
  }
}

// The same with the weights in place of the scores.
template <class V>
MR_INLINE void soften_row(float* scores, int n_valid, RowState& state, float* output, int v_dim) {
  soften_row<V>(scores, n_valid, state, output, v_dim, [&](int token, typename V::F weights) {
    V::store(scores + token, weights);
    return weights;
  });
}

template <class V, class Page>
struct FloatAttention {
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
    score_tile<V, Page, kRows>(rows.q, page, job.head_dim, n_last, ahead, s.scores);
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      if constexpr (Page::kHasScales) scale(rows.scores[r], scales_before(v), rows.n_valid[r]);
      soften_row<V>(rows.scores[r], rows.n_valid[r], s.rows[row + r], rows.output[r], job.v_dim);
      if constexpr (Page::kHasScales) {
        scale(rows.scores[r], scales_before(page_end(job, page)), rows.n_valid[r]);
      }
    }
    const int n_shared = rows.n_valid[0] / 2;
    mix_tile<V, Page, kRows>(rows.scores, v, job.v_dim, 0, n_shared, ahead, rows.output);
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      if (rows.n_valid[r] == 2 * n_shared) continue;
      mix_row_end<V, Page>(rows.scores[r], v, job.v_dim, n_shared, rows.n_valid[r], rows.output[r]);
    }
    return ahead;
  }

 private:
  // Beyond n_valid, up to a whole register, whatever comes out is not looked at.
  MR_INLINE static void scale(float* values, const float* scales, int n_valid) {
    for (int token = 0; token < n_valid; token += V::kWidth) {
      V::store(values + token, V::mul(V::load(values + token), V::load(scales + token)));
    }
  }
};

// Adds the chunk's state of a row to that of the chunks before, and clears the former.
template <class V>
MR_INLINE void merge_chunk(RowState& state, float* output, float* total, int v_dim) {
  using F = typename V::F;
  const float peak = state.peak > state.total_peak ? state.peak : state.total_peak;
  const F old_factor = exp2<V>(V::set1(state.total_peak - peak));
  const F new_factor = exp2<V>(V::set1(state.peak - peak));
  for (int dim = 0; dim < v_dim; dim += V::kWidth) {
    const F kept = V::mul(V::load(total + dim), old_factor);
    V::store(total + dim, V::fma(V::load(output + dim), new_factor, kept));
    V::store(output + dim, V::zero());
  }
  state.total_sum = state.total_sum * V::max_lane(old_factor) + state.sum * V::max_lane(new_factor);
  state.total_peak = peak;
  state.peak = kMinusInfinity;
  state.sum = 0;
}

template <class V>
MR_INLINE void finish_row(const RowState& state, const float* total, int head_dim, float* out) {
  const auto sum = V::set1(state.total_sum);
  int dim = 0;
  for (; dim + V::kWidth <= head_dim; dim += V::kWidth) {
    V::store(out + dim, V::div(V::load(total + dim), sum));
  }
  if (dim < head_dim) {
    V::store_partial(out + dim, V::div(V::load(total + dim), sum), head_dim - dim);
  }
}

template <class V, class Kind>
void attend(const AttentionJob& job) {
  const int n_rows = job.n_tokens * job.n_heads;
  Scratch s;
  s.output = job.scratch;
  s.total = s.output + kAttentionRows * job.v_dim;
  s.scores = s.total + kAttentionRows * job.v_dim;
  s.rows = reinterpret_cast<RowState*>(s.scores + 4 * kPage);
  s.factors = reinterpret_cast<RowQuery*>(s.rows + kAttentionRows);
  s.weights = reinterpret_cast<int16_t*>(s.factors + kAttentionRows);
  s.queries = s.weights + 4 * kPage;
  for (int i = 0; i < n_rows * job.v_dim; ++i) s.output[i] = s.total[i] = 0;
  for (int r = 0; r < n_rows; ++r) s.rows[r] = {kMinusInfinity, 0, kMinusInfinity, 0};
  Kind::begin(job, s);

  const int64_t n_pages = (job.position + job.n_tokens + kPage - 1) / kPage;
  for (int64_t index = 0; index < n_pages; ++index) {
    const int64_t start = index * kPage;
    const uint8_t* page = job.pages + job.blocks[index] * job.block_bytes;
    PageAhead ahead;
    if (index + 1 < n_pages) {
      ahead.at = job.pages + job.blocks[index + 1] * job.block_bytes;
      ahead.end = page_end(job, ahead.at);
    }
    // Rows of earlier tokens than this page have nothing to see in it.
    const int64_t first_token = start > job.position ? start - job.position : 0;
    int row = static_cast<int>(first_token) * job.n_heads;
    for (; row + 4 <= n_rows; row += 4) {
      ahead = Kind::template attend_page<4>(job, page, start, row, ahead, s);
    }
    if (n_rows - row == 3) Kind::template attend_page<3>(job, page, start, row, ahead, s);
    if (n_rows - row == 2) Kind::template attend_page<2>(job, page, start, row, ahead, s);
    if (n_rows - row == 1) Kind::template attend_page<1>(job, page, start, row, ahead, s);

    if ((index + 1) % kAttentionChunkPages != 0 && index + 1 != n_pages) continue;
    for (int r = 0; r < n_rows; ++r) {
      if (s.rows[r].sum == 0) continue;  // the row ended in an earlier chunk
      merge_chunk<V>(s.rows[r], s.output + r * job.v_dim, s.total + r * job.v_dim, job.v_dim);
    }
  }
  for (int r = 0; r < n_rows; ++r) {
    float* out = job.out + r / job.n_heads * job.out_stride + r % job.n_heads * job.head_dim;
    finish_row<V>(s.rows[r], s.total + r * job.v_dim, job.head_dim, out);
  }
}

}  // namespace
}  // namespace millrace::kernels

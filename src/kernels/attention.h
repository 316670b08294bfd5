#pragma once
// Paged attention of the tokens of one sequence. Any thread; jobs with different outputs run at the
// same time. Included by the instruction-set units, so only C headers here.

#include <stdint.h>

#include "kernels/dot_kind.h"
#include "kernels/kv_page.h"

namespace millrace::kernels {

enum class Isa : uint8_t;  // kernels/isa.h

// Query rows of one job: tokens times heads.
inline constexpr int kAttentionRows = 32;
// Pages of a chunk: scores of 1,024 tokens are normalised together, chunks are merged in order.
inline constexpr int kAttentionChunkPages = 16;

// Consecutive tokens of one sequence and query heads that share one KV head. Row (t, h) sees the
// keys at positions 0 .. position + t.
struct AttentionJob {
  const float* q;      // (t, h): q + t * q_stride + h * head_dim; scaled by log2(e)/sqrt(head_dim)
  float* out;          // (t, h): out + t * out_stride + h * head_dim
  int64_t q_stride;    // floats
  int64_t out_stride;  // floats
  int32_t n_tokens;    // n_tokens * n_heads <= kAttentionRows
  int32_t n_heads;
  int32_t head_dim;      // even
  int32_t v_dim;         // PageFormat::v_dim()
  int64_t position;      // of the first token
  const uint8_t* pages;  // the page of block b is at pages + b * block_bytes
  int64_t block_bytes;
  int64_t k_bytes;         // PageFormat::k_bytes(): where V starts in a page
  const uint32_t* blocks;  // covers position + n_tokens tokens
  float* scratch;          // attention_scratch_floats(v_dim), 64-byte aligned
};

// Sums of a chunk and of those before, a row's state, its query as integers; scores of four rows as
// floats and as integers.
constexpr int64_t attention_scratch_floats(int v_dim) {
  return int64_t{kAttentionRows} * (2 * v_dim + 4 + v_dim / 2 + 2) + 6 * PageFormat::kTokens;
}

// softmax(q K) V by online softmax, one page at a time. A row's result depends on its own query,
// its position and the keys and values it sees, bit for bit: never on the other rows of the job.
// Source: Milakov and Gimelshein, arXiv 1805.02867; chunk merge as in Dao et al., arXiv 2205.14135.
void attend(Isa isa, KvType type, const AttentionJob& job);

// How it multiplies queries by keys, and softmax weights by values.
struct AttentionDots {
  DotKind scores, values;
};
AttentionDots attention_dots(Isa isa, KvType type);

// One token's K and V of one head, which go into its slot of a page and nowhere else.
struct KvWrite {
  const float* k;   // [head_dim]
  const float* v;   // [head_dim]
  uint8_t* page;    // PageFormat::bytes() of them, at a multiple of 64
  int64_t k_bytes;  // PageFormat::k_bytes()
  int32_t head_dim;
  int32_t v_dim;  // PageFormat::v_dim()
  int32_t slot;   // position % 64
};
void store_kv(Isa isa, KvType type, const KvWrite& write);

}  // namespace millrace::kernels

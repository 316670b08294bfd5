#pragma once
// One step of the decoder over a ragged batch: scratch buffers and the phases that fill them. Owned
// and called by the engine thread; the phases run on the worker pool.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/types.h"
#include "base/worker_pool.h"
#include "kernels/isa.h"
#include "kernels/kv_page.h"
#include "kernels/linear.h"
#include "kv/kv_memory.h"
#include "model/memory_need.h"
#include "model/model.h"
#include "model/model_spec.h"
#include "model/rope_angles.h"
#include "model/weights.h"

namespace millrace {

class ForwardPass {
 public:
  // sizes: memory_need() for max_tokens. kResourceExhausted when the system refuses the memory.
  static Result<std::unique_ptr<ForwardPass>> create(const ModelSpec& spec,
                                                     const Weights& weights,
                                                     kernels::Isa isa,
                                                     WorkerPool& pool,
                                                     PageFormat format,
                                                     int max_tokens,
                                                     const ScratchSizes& sizes);

  // The batch has been checked (Model::forward).
  void run(const Batch& batch, KvMemory& kv, std::span<float> logits, std::span<float> maxima);

  size_t scratch_bytes() const;

 private:
  // A token of the batch and where it stands in its sequence.
  struct Row {
    TokenId token;
    int64_t position;
    const BlockId* blocks;
  };
  // Consecutive tokens of one sequence that one attention job takes.
  struct Tile {
    int first_row;
    int n_tokens;
  };
  // out[row * stride ..] = weights * input row.
  struct Projection {
    const kernels::LinearWeights* weights;
    float* out;
    int64_t stride;
    kernels::PanelMaxima maxima = {};
  };
  // What one worker needs for itself; written before it is read within a phase.
  struct alignas(64) Workspace {
    float* values;                               // one row of the widest input
    float* attention;                            // kernels::attention_scratch_floats
    std::byte* rows[kernels::kActivationKinds];  // kMaxOwnRows activation rows of a kind, or null
  };
  // Up to kMaxOwnRows rows with no more values than this are made by every worker for itself.
  static constexpr int64_t kMaxOwnValues = 8192;

  ForwardPass(const ModelSpec& spec,
              const Weights& weights,
              kernels::Isa isa,
              WorkerPool& pool,
              PageFormat format);
  Result<void> allocate(int max_tokens, const ScratchSizes& sizes);
  Result<void> allocate_workers(const ScratchSizes& sizes);
  void plan(const Batch& batch);
  void embed();
  void run_layer(int layer, KvMemory& kv);
  void run_attention(int layer, KvMemory& kv);
  void run_head(std::span<float> logits, std::span<float> maxima);
  void store_keys(const LayerWeights& weights, int layer, KvMemory& kv, Tile tile, int kv_head);
  void attend(const LayerWeights& weights,
              int layer,
              KvMemory& kv,
              Tile tile,
              int first_head,
              int n_heads,
              float* scratch);

  // make_row(row, keeps, values) -> the row's n_in floats, in `values` or elsewhere; `keeps` says
  // that this call is the one that writes results other than the row itself.
  template <class MakeRow>
  void project(int n_rows, std::initializer_list<Projection> projections, const MakeRow& make_row);
  template <class MakeRow>
  void make_rows(Range rows,
                 std::initializer_list<Projection> projections,
                 bool keeps,
                 float* values,
                 std::byte* const* out,
                 const MakeRow& make_row);
  // The residual stream with the last projection added, normalised: the input of a projection.
  const float* normalise_row(int64_t row,
                             const std::vector<float>& weight,
                             const std::vector<float>* delta_bias,
                             bool keeps,
                             float* values);

  const ModelSpec& spec_;
  const Weights& weights_;
  const kernels::Isa isa_;
  WorkerPool& pool_;
  const PageFormat format_;
  const RopeAngles angles_;
  const int heads_per_job_;
  const int tokens_per_job_;
  // Floats from row to row of buffers with rows of n_embd, n_query, n_key and n_ff.
  const int64_t embd_stride_;
  const int64_t query_stride_;
  const int64_t key_stride_;
  const int64_t ff_stride_;

  std::vector<Row> rows_;         // of the batch
  std::vector<Tile> tiles_;       // longest first
  std::vector<int> logit_rows_;   // rows of the batch whose logits are wanted
  bool is_one_tile_each_ = true;  // no sequence has more than one tile
  std::atomic<int64_t> next_item_{0};

  // Float buffers of [max_tokens] rows of a width, at their strides; x_[0] and x_[1] take turns as
  // residual stream.
  Buffer x_[2];
  int x_now_ = 0;
  Buffer delta_;  // [n_embd]: the last block's output, not yet added to x
  bool has_delta_ = false;
  Buffer wide_;             // q, k, v, attention output, or gate and up: never alive together
  float* q_ = nullptr;      // [n_query]
  float* k_ = nullptr;      // [n_key]
  float* v_ = nullptr;      // [n_key]
  float* mixed_ = nullptr;  // [n_query]
  float* gate_ = nullptr;   // [n_ff]
  float* up_ = nullptr;     // [n_ff]
  Buffer turns_;            // [head_dim]: cosines, then sines of the token's position
  Buffer shared_rows_[kernels::kActivationKinds];  // max_tokens activation rows of the widest input
  std::vector<Buffer> worker_memory_;
  std::vector<Workspace> workspaces_;
};

}  // namespace millrace

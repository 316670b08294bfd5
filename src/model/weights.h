#pragma once
// The decoder's weights in the form that the kernels read. Immutable after load; any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/worker_pool.h"
#include "kernels/kv_page.h"
#include "kernels/linear.h"
#include "model/model_spec.h"
#include "tensor/tensor_view.h"

namespace millrace {

class Checkpoint;

struct LayerWeights {
  std::vector<float> attn_norm;  // [n_embd]
  kernels::LinearWeights q;      // [n_query, n_embd]
  kernels::LinearWeights k;      // [n_key, n_embd]
  kernels::LinearWeights v;
  std::vector<float> q_bias;  // empty: none, as all biases and the head norms
  std::vector<float> k_bias;
  std::vector<float> v_bias;
  std::vector<float> q_norm;  // [head_dim]
  std::vector<float> k_norm;
  kernels::LinearWeights output;   // [n_embd, n_query]
  std::vector<float> output_bias;  // [n_embd]
  std::vector<float> ffn_norm;
  kernels::LinearWeights gate;  // [n_ff, n_embd]
  kernels::LinearWeights up;
  kernels::LinearWeights down;  // [n_embd, n_ff]
};

struct Weights {
  Buffer panels;         // of all matrices in the order of the graph: small ones share huge pages
  TensorView embedding;  // [n_vocab, n_embd], in the file
  std::vector<float> rope_factors;
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;
  kernels::LinearWeights head;  // [n_vocab, n_embd]
};

// The file has been checked against the spec (read_model_spec). Packs on the pool and gives the
// file's pages back layer by layer. progress and errors: as Model::load.
Result<Weights> load_weights(const Checkpoint& file,
                             const ModelSpec& spec,
                             WorkerPool& pool,
                             const std::function<void(int64_t, int64_t)>& progress);

// How finely the inputs of a matrix are rounded, by its name (docs/adr/0001-activation-planes.md).
kernels::Rounding rounding_of(std::string_view matrix);

// All matrices of a layer, in the order of the graph.
std::vector<const kernels::LinearWeights*> layer_matrices(const LayerWeights& layer);

// Bytes of packed matrices and vectors, and of the embedding table unless it is the head.
size_t weight_bytes(const Weights& weights, const ModelSpec& spec);

// F32 when every matrix of the file is F32 or F16, whose error BF16 pages would dominate; else
// BF16.
KvType default_kv_type(const Checkpoint& file);

// The pages that keep a model's KV; asked: absent for default_kv_type. kUnsupported: int8 for heads
// of more than kMaxInt8HeadDim.
Result<PageFormat> page_format(const Checkpoint& file,
                               const ModelSpec& spec,
                               std::optional<KvType> asked);

}  // namespace millrace

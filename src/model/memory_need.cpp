#include "model/memory_need.h"

#include <algorithm>

#include "formats/checkpoint.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "model/matrix_use.h"

namespace millrace {
namespace {

size_t round_up_64(size_t n) {
  return (n + 63) / 64 * 64;
}

}  // namespace

size_t ScratchSizes::wide() const {
  return std::max(2 * query + 2 * key, 2 * feed_forward);
}

size_t ScratchSizes::per_worker() const {
  size_t bytes = own_values + own_attention;
  for (const size_t rows : own_rows) bytes += rows;
  return bytes;
}

size_t ScratchSizes::total(int n_workers) const {
  size_t bytes = 3 * residual + turns + wide() + per_worker() * static_cast<size_t>(n_workers);
  for (const size_t rows : shared_rows) bytes += rows;
  return bytes;
}

MemoryNeed memory_need(const Checkpoint& file,
                       const ModelSpec& spec,
                       PageFormat format,
                       int max_tokens,
                       kernels::Isa isa) {
  MemoryNeed need;
  size_t row_bytes[kernels::kActivationKinds] = {};  // of the widest input
  for (const TensorView& tensor : file.tensors()) {
    const bool is_table = tensor.name == kEmbeddingName && !spec.is_tied;
    if (is_vector(tensor.name)) {
      need.weight_bytes += static_cast<size_t>(tensor.n_values()) * sizeof(float);
    } else if (is_table) {
      need.weight_bytes += tensor.data.size();
    }
  }
  for (const MatrixUse& use : matrix_uses(file, spec)) {
    need.weight_bytes += use.packed_bytes();
    const kernels::ActivationKind kind = use.activation(isa);
    size_t& widest = row_bytes[static_cast<int>(kind)];
    widest = std::max(widest, kernels::activation_row_bytes(kind, use.tensor->shape[0]));
  }
  const auto n = static_cast<size_t>(max_tokens);
  const auto floats = [&](int64_t width) {
    return n * static_cast<size_t>(kernels::result_stride(width)) * sizeof(float);
  };
  ScratchSizes& scratch = need.scratch;
  scratch.residual = floats(spec.n_embd);
  scratch.turns = round_up_64(n * static_cast<size_t>(spec.head_dim) * sizeof(float));
  scratch.query = floats(spec.n_query());
  scratch.key = floats(spec.n_key());
  scratch.feed_forward = floats(spec.n_ff);
  const int64_t widest_input = std::max<int64_t>({spec.n_embd, spec.n_query(), spec.n_ff});
  scratch.own_values = round_up_64(static_cast<size_t>(widest_input) * sizeof(float));
  scratch.own_attention = round_up_64(
      static_cast<size_t>(kernels::attention_scratch_floats(format.v_dim())) * sizeof(float));
  for (size_t kind = 0; kind < kernels::kActivationKinds; ++kind) {
    scratch.shared_rows[kind] = n * row_bytes[kind];
    scratch.own_rows[kind] = kMaxOwnRows * row_bytes[kind];
  }
  return need;
}

}  // namespace millrace

#include "model/weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "formats/checkpoint.h"
#include "model/coded_weights.h"
#include "model/matrix_use.h"

namespace millrace {

using kernels::Rounding;

namespace {

class Loader {
 public:
  // panels: for all matrices, one after the other; n_matrix_bytes: what they take in the file.
  Loader(const Checkpoint& file,
         WorkerPool& pool,
         Buffer& panels,
         int64_t n_matrix_bytes,
         const std::function<void(int64_t, int64_t)>& progress)
      : file_(file),
        pool_(pool),
        panels_(panels),
        n_matrix_bytes_(n_matrix_bytes),
        progress_(progress) {}

  Result<void> vector(const std::string& name, bool is_wanted, std::vector<float>& values) {
    if (!is_wanted) return {};
    const TensorView& tensor = find(name);
    const DTypeInfo& type = dtype_info(tensor.dtype);
    values.resize(static_cast<size_t>(tensor.n_values()));
    type.decode(tensor.data.data(), values.data(), tensor.n_values());
    const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
    if (bad != values.end()) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: tensor {} holds {} at {}",
                  file_.name(),
                  file_.name_in_file(name),
                  *bad,
                  bad - values.begin());
    }
    return {};
  }

  Result<void> matrix(const std::string& name, kernels::LinearWeights& weights) {
    const TensorView& tensor = find(name);
    std::byte* memory = panels_.data() + n_taken_;
    n_taken_ += matrix_packed_bytes(tensor);
    MR_CHECK(n_taken_ <= panels_.size(), "{} is not in matrix_uses", name);
    auto packed = pack(tensor, rounding_of(name), memory);
    if (!packed) return propagate(packed);
    weights = *std::move(packed);
    n_bytes_done_ += static_cast<int64_t>(tensor.data.size());
    if (progress_) progress_(n_bytes_done_, n_matrix_bytes_);
    return {};
  }

  const TensorView& find(const std::string& name) const {
    const TensorView* tensor = file_.find(name);
    MR_CHECK(tensor != nullptr, "read_model_spec let a file without {} pass", name);
    return *tensor;
  }

 private:
  Result<kernels::LinearWeights> pack(const TensorView& tensor,
                                      kernels::Rounding rounding,
                                      std::byte* memory) {
    if (tensor.coded != nullptr) return pack_coded(tensor, rounding, pool_, memory);
    const auto ordered = in_order(tensor);
    if (!ordered) return propagate(ordered);
    return kernels::LinearWeights::pack(*ordered, rounding, pool_, memory);
  }

  // The tensor with its rows where they belong: a copy, until the next call, where the file has
  // them otherwise.
  Result<TensorView> in_order(const TensorView& tensor) {
    if (tensor.split_head_rows == 0) return tensor;
    if (ordered_rows_.size() < tensor.data.size()) {
      auto memory = Buffer::try_allocate(tensor.data.size());
      if (!memory) {
        return fail(memory.error().code, "[model] {}: {}", file_.name(), memory.error().message);
      }
      ordered_rows_ = *std::move(memory);
    }
    const auto row_bytes = static_cast<size_t>(tensor.row_bytes());
    pool_.run([&](int worker) {
      const Range own = share(tensor.n_rows(), worker, pool_.size());
      for (int64_t r = own.begin; r < own.end; ++r) {
        std::memcpy(
            ordered_rows_.data() + static_cast<size_t>(r) * row_bytes, tensor.row(r), row_bytes);
      }
    });
    TensorView ordered = tensor;
    ordered.data = ordered_rows_.bytes().first(tensor.data.size());
    ordered.split_head_rows = 0;
    return ordered;
  }

  const Checkpoint& file_;
  WorkerPool& pool_;
  Buffer& panels_;
  size_t n_taken_ = 0;  // bytes of panels_
  Buffer ordered_rows_;
  const int64_t n_matrix_bytes_;
  int64_t n_bytes_done_ = 0;  // of them
  const std::function<void(int64_t, int64_t)>& progress_;
};

Result<LayerWeights> load_layer(Loader& loader, const ModelSpec& spec, int index) {
  LayerWeights layer;
  const std::string block = fmt::format("blk.{}.", index);
  struct Vector {
    const char* name;
    bool is_wanted;
    std::vector<float>* values;
  };
  const Vector vectors[] = {
      {"attn_norm.weight", true, &layer.attn_norm},
      {"attn_q.bias", spec.has_qkv_bias, &layer.q_bias},
      {"attn_k.bias", spec.has_qkv_bias, &layer.k_bias},
      {"attn_v.bias", spec.has_qkv_bias, &layer.v_bias},
      {"attn_q_norm.weight", spec.has_qk_norm, &layer.q_norm},
      {"attn_k_norm.weight", spec.has_qk_norm, &layer.k_norm},
      {"attn_output.bias", spec.has_output_bias, &layer.output_bias},
      {"ffn_norm.weight", true, &layer.ffn_norm},
  };
  for (const Vector& row : vectors) {
    if (auto done = loader.vector(block + row.name, row.is_wanted, *row.values); !done) {
      return propagate(done);
    }
  }
  const std::pair<const char*, kernels::LinearWeights*> matrices[] = {
      {"attn_q.weight", &layer.q},
      {"attn_k.weight", &layer.k},
      {"attn_v.weight", &layer.v},
      {"attn_output.weight", &layer.output},
      {"ffn_gate.weight", &layer.gate},
      {"ffn_up.weight", &layer.up},
      {"ffn_down.weight", &layer.down},
  };
  for (const auto& [name, weights] : matrices) {
    if (auto done = loader.matrix(block + name, *weights); !done) return propagate(done);
  }
  return layer;
}

}  // namespace

Result<Weights> load_weights(const Checkpoint& file,
                             const ModelSpec& spec,
                             WorkerPool& pool,
                             const std::function<void(int64_t, int64_t)>& progress) {
  size_t n_bytes = 0;
  int64_t n_matrix_bytes = 0;
  for (const MatrixUse& use : matrix_uses(file, spec)) {
    n_bytes += use.packed_bytes();
    n_matrix_bytes += static_cast<int64_t>(use.tensor->data.size());
  }
  auto panels = Buffer::try_allocate(n_bytes);
  if (!panels) {
    return fail(panels.error().code, "[model] {}: {}", file.name(), panels.error().message);
  }
  Weights weights;
  weights.panels = *std::move(panels);
  Loader loader(file, pool, weights.panels, n_matrix_bytes, progress);
  weights.embedding = loader.find(kEmbeddingName);
  if (auto done = loader.vector("rope_freqs.weight", spec.rope.has_factors, weights.rope_factors);
      !done) {
    return propagate(done);
  }
  for (float factor : weights.rope_factors) {
    if (!(factor > 0)) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: tensor rope_freqs.weight holds {}, expected factors above 0",
                  file.name(),
                  factor);
    }
  }
  for (int index = 0; index < spec.n_layers; ++index) {
    auto layer = load_layer(loader, spec, index);
    if (!layer) return propagate(layer);
    weights.layers.push_back(*std::move(layer));
    file.drop_pages();
  }
  if (auto done = loader.vector("output_norm.weight", true, weights.output_norm); !done) {
    return propagate(done);
  }
  const char* head = spec.is_tied ? kEmbeddingName : kHeadName;
  if (auto done = loader.matrix(head, weights.head); !done) return propagate(done);
  file.drop_pages();
  return weights;
}

kernels::Rounding rounding_of(std::string_view matrix) {
  const bool is_feed_forward = matrix.find(".ffn_") != std::string_view::npos;
  return is_feed_forward ? Rounding::kCoarse : Rounding::kFine;
}

std::vector<const kernels::LinearWeights*> layer_matrices(const LayerWeights& layer) {
  return {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down};
}

size_t weight_bytes(const Weights& weights, const ModelSpec& spec) {
  size_t bytes = weights.head.bytes();
  if (!spec.is_tied) bytes += weights.embedding.data.size();
  size_t n_floats = weights.output_norm.size() + weights.rope_factors.size();
  for (const LayerWeights& layer : weights.layers) {
    for (const kernels::LinearWeights* matrix : layer_matrices(layer)) bytes += matrix->bytes();
    for (const auto* vector : {&layer.attn_norm,
                               &layer.ffn_norm,
                               &layer.q_bias,
                               &layer.k_bias,
                               &layer.v_bias,
                               &layer.q_norm,
                               &layer.k_norm,
                               &layer.output_bias}) {
      n_floats += vector->size();
    }
  }
  return bytes + n_floats * sizeof(float);
}

KvType default_kv_type(const Checkpoint& file) {
  const bool is_wide = std::ranges::all_of(file.tensors(), [](const TensorView& tensor) {
    return tensor.n_dims < 2 || tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16;
  });
  return is_wide ? KvType::kF32 : KvType::kBF16;
}

Result<PageFormat> page_format(const Checkpoint& file,
                               const ModelSpec& spec,
                               std::optional<KvType> asked) {
  const PageFormat format{asked.value_or(default_kv_type(file)), spec.head_dim};
  if (format.type == KvType::kInt8 && format.head_dim > kMaxInt8HeadDim) {
    return fail(ErrorCode::kUnsupported,
                "[model] {}: --kv-type int8 takes heads of up to {} dims, these have {}",
                file.name(),
                kMaxInt8HeadDim,
                format.head_dim);
  }
  return format;
}

}  // namespace millrace

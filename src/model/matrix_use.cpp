#include "model/matrix_use.h"

#include "base/check.h"
#include "formats/checkpoint.h"
#include "kernels/linear.h"
#include "model/coded_weights.h"
#include "model/weights.h"

namespace millrace {

bool is_vector(std::string_view name) {
  return name.ends_with("norm.weight") || name.ends_with(".bias") || name == "rope_freqs.weight";
}

kernels::ActivationKind MatrixUse::activation(kernels::Isa isa) const {
  return kernels::activation_kind(isa, matrix_panel_format(*tensor), rounding);
}

size_t MatrixUse::packed_bytes() const {
  return matrix_packed_bytes(*tensor);
}

std::vector<MatrixUse> matrix_uses(const Checkpoint& file, const ModelSpec& spec) {
  const std::string_view head = spec.is_tied ? kEmbeddingName : kHeadName;
  std::vector<MatrixUse> uses;
  for (const ExpectedTensor& expected : expected_tensors(spec)) {
    const TensorView* tensor = file.find(expected.name);
    MR_CHECK(tensor != nullptr, "read_model_spec let a file without {} pass", expected.name);
    const bool is_head = expected.name == head;
    if (is_vector(expected.name) || (expected.name == kEmbeddingName && !is_head)) continue;
    uses.push_back({tensor, rounding_of(expected.name), is_head});
  }
  return uses;
}

}  // namespace millrace

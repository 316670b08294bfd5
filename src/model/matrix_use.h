#pragma once
// The matrices of a model file and how each is multiplied, before anything is loaded. Pure
// functions, any thread.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/isa.h"
#include "kernels/panel.h"
#include "model/model_spec.h"
#include "tensor/tensor_view.h"

namespace millrace {

class Checkpoint;

inline constexpr const char* kEmbeddingName = "token_embd.weight";
inline constexpr const char* kHeadName = "output.weight";

// Norms, biases and rope factors, by the tensor's name.
bool is_vector(std::string_view name);

struct MatrixUse {
  const TensorView* tensor = nullptr;  // [n_out rows, n_in], in the file
  kernels::Rounding rounding = kernels::Rounding::kFine;
  bool is_head = false;  // multiplied only where logits are wanted

  kernels::ActivationKind activation(kernels::Isa isa) const;
  size_t packed_bytes() const;
};

// All matrices that are packed: the embedding table only when it is the head. file: checked against
// the spec (read_model_spec).
std::vector<MatrixUse> matrix_uses(const Checkpoint& file, const ModelSpec& spec);

}  // namespace millrace

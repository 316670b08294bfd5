#pragma once
// What a model takes in memory, found from its file before anything is loaded. Loading allocates by
// the same numbers. Pure functions, any thread.

#include <array>
#include <cstddef>

#include "kernels/isa.h"
#include "kernels/kv_page.h"
#include "kernels/panel.h"
#include "model/model_spec.h"

namespace millrace {

class Checkpoint;

// Input rows of a projection that every worker makes for itself rather than wait for another.
inline constexpr int kMaxOwnRows = 8;

// The buffers of a forward pass, in bytes; each a multiple of 64.
struct ScratchSizes {
  size_t residual = 0;  // three of them: the residual stream twice and the last block's output
  size_t turns = 0;     // cosines and sines
  size_t query = 0;     // also of the attention output
  size_t key = 0;       // also of the values
  size_t feed_forward = 0;
  std::array<size_t, kernels::kActivationKinds> shared_rows = {};  // of the whole batch

  // One worker's own.
  size_t own_values = 0;
  size_t own_attention = 0;
  std::array<size_t, kernels::kActivationKinds> own_rows = {};

  // q, k, v and attention output, or gate and up: never alive together.
  size_t wide() const;
  size_t per_worker() const;
  size_t total(int n_workers) const;
};

struct MemoryNeed {
  size_t weight_bytes = 0;  // packed matrices, vectors and, when not tied, the embedding table
  ScratchSizes scratch;
};

// file: checked against the spec (read_model_spec). max_tokens: of one step.
MemoryNeed memory_need(const Checkpoint& file,
                       const ModelSpec& spec,
                       PageFormat format,
                       int max_tokens,
                       kernels::Isa isa);

}  // namespace millrace

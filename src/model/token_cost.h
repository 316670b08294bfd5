#pragma once
// What the tokens of one sequence cost at least, by the arithmetic that the file asks for on an
// instruction set, and by its bytes: what speeds are compared with. Pure functions, any thread.

#include <array>
#include <cstdint>

#include "kernels/kv_page.h"
#include "kernels/machine_limits.h"
#include "model/model_spec.h"

namespace millrace {

class Checkpoint;

struct TokenCost {
  std::array<double, kernels::kDotKinds> layer_macs{};  // multiply-adds of a token, by DotKind
  std::array<double, kernels::kDotKinds> head_macs{};   // of a row of logits
  // Of a token for each position that it sees.
  std::array<double, kernels::kDotKinds> attention_macs{};
  double weight_bytes = 0;  // packed matrices: what decoding one token reads
  double kv_bytes = 0;      // of a position
};

// file: checked against the spec (read_model_spec).
TokenCost token_cost(const Checkpoint& file,
                     const ModelSpec& spec,
                     PageFormat format,
                     kernels::Isa isa);

// The least time to compute a prompt of n tokens and the logits of its last one.
double least_prefill_seconds(const TokenCost& cost, const kernels::DotPeaks& peaks, int64_t n);

// Bytes that decoding one token reads when the sequence has `depth` tokens.
double decode_bytes(const TokenCost& cost, double depth);

}  // namespace millrace

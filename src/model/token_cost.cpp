#include "model/token_cost.h"

#include "kernels/attention.h"
#include "kernels/linear.h"
#include "model/matrix_use.h"

namespace millrace {

TokenCost token_cost(const Checkpoint& file,
                     const ModelSpec& spec,
                     PageFormat format,
                     kernels::Isa isa) {
  TokenCost cost;
  for (const MatrixUse& use : matrix_uses(file, spec)) {
    auto& macs = use.is_head ? cost.head_macs : cost.layer_macs;
    macs[static_cast<size_t>(kernels::dot_kind(use.activation(isa)))] +=
        static_cast<double>(use.tensor->n_values());
    cost.weight_bytes += static_cast<double>(use.packed_bytes());
  }
  // Scores and the sum of the values: one multiply-add a dimension each.
  const kernels::AttentionDots dots = kernels::attention_dots(isa, format.type);
  for (const kernels::DotKind kind : {dots.scores, dots.values}) {
    cost.attention_macs[static_cast<size_t>(kind)] += 1.0 * spec.n_layers * spec.n_query();
  }
  cost.kv_bytes =
      static_cast<double>(format.bytes()) / PageFormat::kTokens * spec.n_layers * spec.n_kv_heads;
  return cost;
}

double least_prefill_seconds(const TokenCost& cost, const kernels::DotPeaks& peaks, int64_t n) {
  const auto n_tokens = static_cast<double>(n);
  const double n_seen = n_tokens * (n_tokens + 1) / 2;
  double seconds = 0;
  for (size_t kind = 0; kind < kernels::kDotKinds; ++kind) {
    const double macs = n_tokens * cost.layer_macs[kind] + cost.head_macs[kind] +
                        n_seen * cost.attention_macs[kind];
    if (macs > 0) seconds += macs / peaks.all[kind];
  }
  return seconds;
}

double decode_bytes(const TokenCost& cost, double depth) {
  return cost.weight_bytes + depth * cost.kv_bytes;
}

}  // namespace millrace

#include "model/token_cost.h"

#include "kernels/linear.h"
#include "model/matrix_use.h"

namespace millrace {

TokenCost token_cost(const GgufFile& file, const ModelSpec& spec, PageFormat format) {
  TokenCost cost;
  for (const MatrixUse& use : matrix_uses(file, spec)) {
    auto& macs = use.is_head ? cost.head_macs : cost.layer_macs;
    macs[static_cast<size_t>(kernels::dot_kind(use.activation))] +=
        static_cast<double>(use.tensor->n_values());
    cost.weight_bytes += static_cast<double>(kernels::packed_bytes(*use.tensor));
  }
  // Scores and the sum of the values: one multiply-add a dimension each.
  cost.attention_macs = 2.0 * spec.n_layers * spec.n_query();
  cost.kv_bytes =
      static_cast<double>(format.bytes()) / PageFormat::kTokens * spec.n_layers * spec.n_kv_heads;
  return cost;
}

double least_prefill_seconds(const TokenCost& cost, const kernels::DotPeaks& peaks, int64_t n) {
  const auto n_tokens = static_cast<double>(n);
  double seconds = 0;
  for (size_t kind = 0; kind < kernels::kDotKinds; ++kind) {
    seconds += (n_tokens * cost.layer_macs[kind] + cost.head_macs[kind]) / peaks.all[kind];
  }
  const double n_seen = n_tokens * (n_tokens + 1) / 2;
  const auto f32 = static_cast<size_t>(kernels::DotKind::kF32);
  return seconds + n_seen * cost.attention_macs / peaks.all[f32];
}

double decode_bytes(const TokenCost& cost, double depth) {
  return cost.weight_bytes + depth * cost.kv_bytes;
}

}  // namespace millrace

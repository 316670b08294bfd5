#include "engine/simulation/cost_model.h"

namespace millrace {

double CostModel::seconds(const StepPlan& plan) const {
  if (plan.spans.empty()) {
    return 0;
  }
  double total = step + token * static_cast<double>(plan.n_tokens);
  for (const SpanPlan& span : plan.spans) {
    const auto count = static_cast<double>(span.count);
    // Token i of the span attends to begin + i + 1 tokens.
    const double n_attended = count * static_cast<double>(span.begin) + count * (count + 1) / 2;
    total += (span.count == 1 ? decode_attention : prompt_attention) * n_attended;
  }
  return total;
}

}  // namespace millrace

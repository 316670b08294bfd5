#include "engine/step_budget.h"

#include <algorithm>

#include "engine/scheduler.h"

namespace millrace {

int64_t StepBudget::max_prompt_tokens(int64_t n_decoding) const {
  if (n_decoding == 0 || !prompt_cost_.is_known()) {
    return Scheduler::kNoLimit;
  }
  const double limit = max_seconds_ > 0
                           ? max_seconds_
                           : std::max(kLeastLimit, kSlowdown * decode_cost_.seconds(n_decoding));
  return std::max<int64_t>(prompt_cost_.rows_within(limit) - n_decoding, 0);
}

void StepBudget::note(const StepPlan& plan, double seconds) {
  const auto is_decode = [](const SpanPlan& span) { return span.count - span.n_drafts == 1; };
  const bool only_decodes = std::ranges::all_of(plan.spans, is_decode);
  (only_decodes ? decode_cost_ : prompt_cost_).note(plan.n_tokens, seconds);
}

}  // namespace millrace

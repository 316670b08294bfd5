#include "engine/step_budget.h"

#include <algorithm>
#include <cmath>

#include "engine/scheduler.h"

namespace millrace {

int64_t StepBudget::max_prompt_tokens(int64_t n_decoding) {
  if (n_decoding == 0 || n_prompt_tokens_ == 0) {
    return Scheduler::kNoLimit;
  }
  constexpr double kLeastSeconds = 1e-9;  // of a token
  const double seconds_per_token = std::max(prompt_seconds_ / n_prompt_tokens_, kLeastSeconds);
  // Parts of a token are carried over, not cut off: were 1.7 always cut to 1, it would never be
  // seen that 2 hardly take longer.
  const double n_tokens =
      std::max(seconds_left(n_decoding), 0.0) / seconds_per_token + part_of_token_;
  part_of_token_ = n_tokens - std::floor(n_tokens);
  // Small pieces cost the most for a token: nobody who asked for no limit is to pay for that.
  const int64_t at_least = max_seconds_ > 0 ? 0 : Scheduler::kSmallestChunk;
  return std::max(static_cast<int64_t>(n_tokens), at_least);
}

// For prompts, in a step in which so many decode.
double StepBudget::seconds_left(int64_t n_decoding) const {
  const double decodes = decode_cost_.seconds(n_decoding);
  return max_seconds_ > 0 ? max_seconds_ - decodes
                          : std::max(kLeastLimit - decodes, (kSlowdown - 1) * decodes);
}

void StepBudget::note(const StepPlan& plan, double seconds) {
  int64_t n_prompt = 0;
  for (const SpanPlan& span : plan.spans) {
    const int64_t n_new = span.count - span.n_drafts;
    n_prompt += n_new > 1 || !span.is_sampling ? n_new : 0;
  }
  if (n_prompt == 0) {
    decode_cost_.note(plan.n_tokens, seconds);
    return;
  }
  const double decodes = decode_cost_.seconds(plan.n_tokens - n_prompt);
  n_prompt_tokens_ = n_prompt_tokens_ * kForgetPrompts + static_cast<double>(n_prompt);
  prompt_seconds_ = prompt_seconds_ * kForgetPrompts + std::max(seconds - decodes, 0.0);
}

}  // namespace millrace

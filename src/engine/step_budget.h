#pragma once
// How many prompt tokens a step may compute beside decodes, so that a long prompt does not hold
// them up: from what the latest steps have taken. Changes speed only, never text. Engine thread.

#include <cstdint>

#include "engine/step_cost.h"
#include "engine/step_plan.h"

namespace millrace {

class StepBudget {
 public:
  // Without a limit: twice what the decodes take alone, so that prompts get half of the time.
  static constexpr double kSlowdown = 2;
  // But no less than this, in seconds: nobody reads faster, and prompts are done sooner. And never
  // less than Scheduler::kSmallestChunk tokens.
  static constexpr double kLeastLimit = 0.1;

  // max_seconds: of a step with decodes; 0: see above.
  explicit StepBudget(double max_seconds) : max_seconds_(max_seconds) {}

  // Of the next step; Scheduler::kNoLimit when nobody decodes, or nothing is known yet. Called once
  // a step: what is left of a token counts for the step after it.
  int64_t max_prompt_tokens(int64_t n_decoding);

  void note(const StepPlan& plan, double seconds);

 private:
  double seconds_left(int64_t n_decoding) const;

  // What a prompt token takes grows with its position, so the latest steps say most. It falls with
  // their number: a piece reads what lies before it once, however few tokens it has.
  static constexpr double kForgetPrompts = 0.7;

  double max_seconds_;
  StepCost decode_cost_;  // of steps that only decode
  // Of the latest steps that compute prompts, besides what their decodes take.
  double n_prompt_tokens_ = 0;
  double prompt_seconds_ = 0;
  double part_of_token_ = 0;  // 0 .. 1, not used yet
};

}  // namespace millrace

#pragma once
// What a simulated step takes, in place of a model. Pure functions.

#include "engine/step_plan.h"

namespace millrace {

// In seconds. A step takes a fixed time, in which a CPU reads the weights once, then some for each
// token that it computes and for each token that one of these attends to. Decodes pay for attention
// by the bytes that they read, prompts by what they multiply.
struct CostModel {
  double step = 0;
  double token = 0;             // of a prompt or a decode
  double decode_attention = 0;  // of a decode, for each token of its context
  double prompt_attention = 0;  // of a prompt token, for each token of its context

  double seconds(const StepPlan& plan) const;
};

}  // namespace millrace

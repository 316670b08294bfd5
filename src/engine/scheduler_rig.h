#pragma once
// A small scheduler with a fake executor behind it, for tests.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/fake_executor.h"
#include "engine/scheduler.h"

namespace millrace {

inline SchedulerLimits small_limits(int64_t n_blocks) {
  return {.n_blocks = n_blocks,
          .block_tokens = 4,
          .max_sequences = 8,
          .max_batch_tokens = 32,
          .prefill_chunk = 8,
          .max_logits = 16};
}

// A scheduler with a fake executor behind it.
struct Rig {
  explicit Rig(const SchedulerLimits& limits) : scheduler(limits), executor(limits) {}

  // Without tokens: some that no other sequence has.
  void submit(SequenceSpec spec, std::vector<TokenId> tokens = {}, int64_t n_new = 1'000'000) {
    spec.n_prompt = tokens.empty() ? spec.n_prompt : std::ssize(tokens);
    spec.tokens = executor.add(spec.id,
                               {.n_prompt = spec.n_prompt,
                                .n_new = n_new,
                                .max_new = spec.max_new,
                                .space = std::string(spec.cache_namespace),
                                .tokens = std::move(tokens)});
    scheduler.submit(spec);
  }
  // One step; what was planned.
  StepPlan step() {
    StepPlan plan = scheduler.plan(max_prompt_tokens);
    scheduler.add_drafts(plan, std::vector<int64_t>(plan.spans.size(), n_drafts));
    const StepPlan copy = plan;
    const std::vector<SpanResult> results = executor.run(plan);
    scheduler.apply(std::move(plan), results);
    EXPECT_TRUE(scheduler.check());
    return copy;
  }

  Scheduler scheduler;
  FakeExecutor executor;
  int64_t n_drafts = 0;  // offered for every span
  int64_t max_prompt_tokens = Scheduler::kNoLimit;
};

}  // namespace millrace

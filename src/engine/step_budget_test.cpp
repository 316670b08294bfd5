#include "engine/step_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/scheduler_rig.h"

namespace millrace {
namespace {

// A step of one span: a decode if it has one token.
StepPlan step_of(int64_t n_tokens) {
  StepPlan plan;
  plan.spans = {{.count = n_tokens, .is_sampling = n_tokens == 1}};
  plan.n_tokens = n_tokens;
  return plan;
}

// A machine on which a row takes a while, and longer the more tokens lie before it.
double cost_of(const StepPlan& plan) {
  double seconds = 0.010;  // the weights
  for (const SpanPlan& span : plan.spans) {
    for (int64_t position = span.begin; position < span.begin + span.count; ++position) {
      seconds += 0.001 + 0.0000005 * static_cast<double>(position);
    }
  }
  return seconds;
}

// One on which a piece of a prompt reads all that lies before it once, however few tokens it has,
// and on which one step in eleven is twice as slow for no reason.
double cost_by_pieces(const StepPlan& plan) {
  double seconds = 0.040;
  for (const SpanPlan& span : plan.spans) {
    const bool is_decode = span.is_sampling && span.count == 1;
    seconds += is_decode ? 0.001
                         : 0.0066 * static_cast<double>(span.count) +
                               0.027 * static_cast<double>(span.begin) / 4'000;
  }
  const int64_t at = plan.spans.empty() ? 0 : plan.spans[0].begin;
  return at % 11 == 0 ? 2 * seconds : seconds;
}

struct Times {
  double longest = 0;  // of a step with all eight decodes, once the cost is known
  double alone = 0;    // of the last without a prompt
  int64_t n_steps = 0;
};

// Eight sequences decode while a prompt of 4,000 tokens comes.
Times times_of(double max_seconds,
               bool is_limited,
               const std::function<double(const StepPlan&)>& cost = cost_of) {
  Rig rig({.n_blocks = 900,
           .max_sequences = 16,
           .max_batch_tokens = 512,
           .prefill_chunk = 256,
           .max_logits = 80});
  StepBudget budget(max_seconds);
  int64_t n_decoding = 0;
  bool has_come = false;
  const auto step = [&] {
    rig.max_prompt_tokens =
        is_limited && has_come ? budget.max_prompt_tokens(n_decoding) : Scheduler::kNoLimit;
    const StepPlan plan = rig.step();
    budget.note(plan, cost(plan));
    n_decoding = std::ranges::count_if(plan.spans, &SpanPlan::is_sampling);
    return cost(plan);
  };
  Times times;
  for (SequenceId id = 1; id <= 8; ++id) {
    rig.submit({.id = id, .n_prompt = 200, .max_new = 5'000});
  }
  for (int i = 0; i < 40; ++i) {
    times.alone = step();
  }
  rig.submit({.id = 9, .n_prompt = 4'000, .max_new = 4});
  has_come = true;
  while (rig.executor.sequences()[9].n_known() == 4'000) {
    times.longest = std::max(times.longest, step());
    ++times.n_steps;
    EXPECT_LE(times.n_steps, 4'100);
  }
  return times;
}

TEST(StepBudget, a_long_prompt_holds_decodes_up_no_longer_than_it_may) {
  EXPECT_GT(times_of(0, false).longest, 0.25);
  for (const double limit : {0.05, 0.1, 0.2}) {
    const Times times = times_of(limit, true);
    EXPECT_LE(times.longest, limit * 1.15);
    // It is used: what the prompt takes alone, spread over steps that are nearly full.
    EXPECT_LE(static_cast<double>(times.n_steps), 4'000 * 0.002 / (limit - times.alone) * 1.5);
  }
}

TEST(StepBudget, a_limit_near_what_decodes_take_alone_is_kept_by_pieces_of_a_few_tokens) {
  const double alone = times_of(0.05, true).alone;
  const Times times = times_of(alone * 1.4, true);
  EXPECT_LE(times.longest, alone * 1.8);  // by eight tokens: 2.3
  EXPECT_GT(times.n_steps, 1'000);
  // What leaves no time at all still lets prompts end.
  EXPECT_LE(times_of(alone / 2, true).n_steps, 4'000);
}

TEST(StepBudget, pieces_grow_again_after_slow_steps) {
  const Times times = times_of(0.1, true, cost_by_pieces);
  EXPECT_LE(times.n_steps, 1'500);  // had parts of tokens been cut off: 1'872
  EXPECT_LE(times.longest, 2 * 0.1 * 1.1);
}

TEST(StepBudget, without_a_limit_prompts_get_as_much_time_as_decodes_and_a_tenth_of_a_second) {
  EXPECT_LE(times_of(0, true).longest, 0.11);
  EXPECT_GT(times_of(0, true).longest, 0.08);
  StepBudget slow(0);
  for (int i = 0; i < 10; ++i) {
    slow.note(step_of(1), 1.0);
    slow.note(step_of(64), 7.0);
  }
  EXPECT_GT(slow.max_prompt_tokens(1), 8);
  EXPECT_LT(slow.max_prompt_tokens(1), 20);
}

TEST(StepBudget, nobody_who_decodes_means_no_limit) {
  StepBudget budget(0.05);
  EXPECT_EQ(budget.max_prompt_tokens(3), Scheduler::kNoLimit);  // nothing known
  budget.note(step_of(256), 1.0);
  EXPECT_EQ(budget.max_prompt_tokens(0), Scheduler::kNoLimit);
  EXPECT_LT(budget.max_prompt_tokens(1), 20);
}

}  // namespace
}  // namespace millrace

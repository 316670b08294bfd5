#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/scheduler_fuzz.h"
#include "engine/scheduler_rig.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<SequenceId> sequences_of(const StepPlan& plan) {
  std::vector<SequenceId> ids;
  for (const SpanPlan& span : plan.spans) {
    ids.push_back(span.sequence);
  }
  return ids;
}

TEST(Scheduler, prompt_is_computed_in_chunks_on_its_own_edges_and_then_decoded) {
  Rig rig(small_limits(20));
  rig.submit({.id = 1, .n_prompt = 19, .max_new = 3});
  std::vector<std::pair<int64_t, int64_t>> spans;
  std::vector<int64_t> rows;
  while (!rig.scheduler.is_idle()) {
    const StepPlan plan = rig.step();
    ASSERT_EQ(plan.spans.size(), 1U);
    spans.emplace_back(plan.spans[0].begin, plan.spans[0].count);
    rows.push_back(plan.spans[0].n_logits);
  }
  // The third answer token is never computed.
  EXPECT_THAT(
      spans,
      ElementsAre(
          std::pair(0, 8), std::pair(8, 8), std::pair(16, 3), std::pair(19, 1), std::pair(20, 1)));
  EXPECT_THAT(rows, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_EQ(rig.scheduler.pool().n_used(), 0);
}

TEST(Scheduler, prompt_logits_are_asked_for_every_prompt_token_in_block_chunks) {
  Rig rig(small_limits(20));
  rig.submit({.id = 1, .n_prompt = 10, .max_new = 0, .wants_prompt_logits = true});
  std::vector<int64_t> rows;
  while (!rig.scheduler.is_idle()) {
    const StepPlan plan = rig.step();
    EXPECT_FALSE(plan.spans[0].is_sampling);
    rows.push_back(plan.spans[0].n_logits);
  }
  EXPECT_THAT(rows, ElementsAre(4, 4, 2));
}

TEST(Scheduler, decodes_come_before_prefill_chunks_and_a_long_prompt_stalls_nobody) {
  Rig rig(small_limits(60));
  rig.submit({.id = 1, .n_prompt = 4, .max_new = 50});
  rig.step();
  rig.submit({.id = 2, .n_prompt = 100, .max_new = 5});
  rig.step();
  rig.submit({.id = 3, .n_prompt = 5, .max_new = 5});
  const StepPlan plan = rig.step();
  EXPECT_THAT(sequences_of(plan), ElementsAre(1, 2, 3));
  EXPECT_EQ(plan.spans[1].count, 8);
  EXPECT_TRUE(plan.spans[2].is_sampling);  // its first token comes while 2 is still in prefill
}

TEST(Scheduler, a_chunk_that_does_not_fit_into_the_budget_waits_whole) {
  SchedulerLimits limits = small_limits(60);
  limits.max_batch_tokens = 12;
  Rig rig(limits);
  rig.submit({.id = 1, .n_prompt = 16, .max_new = 1});
  rig.submit({.id = 2, .n_prompt = 16, .max_new = 1});
  EXPECT_THAT(sequences_of(rig.step()), ElementsAre(1));
  EXPECT_THAT(sequences_of(rig.step()), ElementsAre(1));
  EXPECT_THAT(sequences_of(rig.step()), ElementsAre(2));
}

TEST(Scheduler, waiting_are_admitted_by_priority_then_arrival_and_never_overtaken) {
  Rig rig(small_limits(10));
  rig.submit({.id = 1, .n_prompt = 20, .max_new = 8});
  rig.step();
  rig.submit({.id = 2, .n_prompt = 24, .max_new = 1});                 // does not fit yet
  rig.submit({.id = 3, .n_prompt = 4, .max_new = 1});                  // would fit
  rig.submit({.id = 4, .priority = -1, .n_prompt = 4, .max_new = 1});  // goes first
  EXPECT_THAT(rig.step().admitted, ElementsAre(4));
  EXPECT_THAT(rig.step().admitted, IsEmpty());
  std::vector<SequenceId> admitted;
  while (!rig.scheduler.is_idle()) {
    const StepPlan plan = rig.step();
    admitted.insert(admitted.end(), plan.admitted.begin(), plan.admitted.end());
  }
  EXPECT_THAT(admitted, ElementsAre(2, 3));
}

TEST(Scheduler, sequences_beyond_the_maximum_wait) {
  SchedulerLimits limits = small_limits(60);
  limits.max_sequences = 2;
  Rig rig(limits);
  for (SequenceId id = 1; id <= 3; ++id) {
    rig.submit({.id = id, .n_prompt = 2, .max_new = 3});
  }
  EXPECT_THAT(rig.step().admitted, ElementsAre(1, 2));
  EXPECT_THAT(rig.step().admitted, IsEmpty());
}

TEST(Scheduler, whole_prompt_is_reserved_at_admission) {
  Rig rig(small_limits(20));
  rig.submit({.id = 1, .n_prompt = 33, .max_new = 3});
  rig.step();
  EXPECT_EQ(rig.scheduler.pool().n_used(), 9);
}

TEST(Scheduler, running_out_of_blocks_preempts_the_cheapest_and_admits_nothing_in_that_step) {
  Rig rig(small_limits(8));
  rig.submit({.id = 1, .n_prompt = 11, .max_new = 20});
  rig.submit({.id = 2, .n_prompt = 7, .max_new = 20});
  rig.submit({.id = 3, .n_prompt = 7, .max_new = 20});
  StepPlan plan;
  for (int i = 0; i < 30 && rig.scheduler.counters().n_preemptions == 0; ++i) {
    plan = rig.step();
  }
  EXPECT_THAT(plan.preempted, ElementsAre(2));  // fewer tokens to compute again than 1
  EXPECT_THAT(plan.admitted, IsEmpty());
  EXPECT_EQ(rig.scheduler.next_waiting(), 2U);  // before 3: it keeps its place
  int steps = 0;
  while (!rig.scheduler.is_idle()) {
    ASSERT_LT(++steps, 200);
    rig.step();
  }
  EXPECT_GT(rig.scheduler.counters().n_recomputed_tokens, 0);
}

TEST(Scheduler, lower_priority_is_preempted_even_if_it_costs_more) {
  Rig rig(small_limits(8));
  rig.submit({.id = 1, .n_prompt = 4, .max_new = 20});
  rig.submit({.id = 2, .priority = 5, .n_prompt = 15, .max_new = 17});
  StepPlan plan;
  for (int i = 0; i < 30 && plan.preempted.empty(); ++i) {
    plan = rig.step();
  }
  EXPECT_THAT(plan.preempted, ElementsAre(2));
}

TEST(Scheduler, third_admission_reserves_the_maximum_and_is_not_preempted_again) {
  Rig rig(small_limits(8));
  rig.submit({.id = 1, .priority = 1, .n_prompt = 4, .max_new = 28});
  int64_t n_preempted = 0;
  for (SequenceId rival = 2; rival <= 4; ++rival) {  // each would like 7 of the 8 blocks
    rig.step();
    rig.submit({.id = rival, .n_prompt = 8, .max_new = 20});
    for (int i = 0; i < 100 && rig.executor.sequences()[rival].n_known() < 28; ++i) {
      n_preempted += static_cast<int64_t>(rig.step().preempted.size());
    }
    EXPECT_EQ(rig.executor.sequences()[rival].n_known(), 28);
    EXPECT_EQ(n_preempted, std::min<int64_t>(2, static_cast<int64_t>(rival) - 1));
  }
  EXPECT_EQ(rig.executor.sequences()[1].n_started, 3);
  EXPECT_EQ(rig.executor.sequences()[1].n_known(), 32);
}

TEST(Scheduler, what_never_fits_is_refused_with_both_sizes) {
  const Scheduler scheduler(small_limits(10));
  EXPECT_TRUE(scheduler.check_fit(40, 1));
  EXPECT_TRUE(scheduler.check_fit(40, 0));
  EXPECT_TRUE(scheduler.check_fit(1, 40));
  const auto refused = scheduler.check_fit(30, 12);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("41 tokens"));
}

TEST(Scheduler, remove_works_waiting_in_prefill_and_in_decode) {
  Rig rig(small_limits(12));
  rig.submit({.id = 1, .n_prompt = 4, .max_new = 9});
  rig.step();
  rig.submit({.id = 2, .n_prompt = 20, .max_new = 9});
  rig.submit({.id = 3, .n_prompt = 20, .max_new = 9});
  rig.step();
  EXPECT_EQ(rig.scheduler.n_running(), 2);
  EXPECT_EQ(rig.scheduler.n_waiting(), 1);
  for (const SequenceId id : {3, 2, 1}) {
    rig.scheduler.remove(id);
    EXPECT_TRUE(rig.scheduler.check());
  }
  EXPECT_TRUE(rig.scheduler.is_idle());
  EXPECT_EQ(rig.scheduler.pool().n_used(), 0);
  EXPECT_TRUE(rig.scheduler.plan().is_empty());
}

TEST(Scheduler, plan_changes_nothing) {
  Rig rig(small_limits(8));
  rig.submit({.id = 1, .n_prompt = 14, .max_new = 18});
  rig.submit({.id = 2, .n_prompt = 9, .max_new = 20});
  for (int i = 0; i < 12; ++i) {
    rig.step();
  }
  const int64_t n_free = rig.scheduler.pool().n_free();
  const StepPlan first = rig.scheduler.plan();
  const StepPlan second = rig.scheduler.plan();
  EXPECT_EQ(first.blocks, second.blocks);
  EXPECT_EQ(first.preempted, second.preempted);
  EXPECT_EQ(sequences_of(first), sequences_of(second));
  EXPECT_EQ(rig.scheduler.pool().n_free(), n_free);
}

// With and without cache, drafts, a limit for the time of a step, fairness and filled steps.
TEST(SchedulerFuzzTest, ten_thousand_random_steps_keep_every_block_where_it_belongs) {
  FuzzTotals all;
  for (const int64_t n_blocks : {5, 12, 40}) {
    for (uint32_t seed = 0; seed < 8; ++seed) {
      SchedulerLimits limits = small_limits(n_blocks);
      limits.n_key_bits = seed % 2 == 0 ? 128 : 8;
      limits.has_prefix_cache = seed % 4 != 3;
      limits.max_overtakings = seed % 3;
      limits.fills_steps = seed >= 6;
      limits.fair_quantum = seed % 3 == 1 ? 32 : 0;
      SchedulerFuzz fuzz(limits, seed, seed != 2, seed % 2 == 0, seed % 5 != 0);
      for (int i = 0; i < 450; ++i) {
        fuzz.step(6);
        ASSERT_FALSE(testing::Test::HasFatalFailure()) << "blocks " << n_blocks << " seed " << seed;
      }
      fuzz.finish();
      ASSERT_FALSE(testing::Test::HasFatalFailure());
      all += fuzz.totals();
    }
  }
  EXPECT_GT(all.n_finished, 300);
  EXPECT_GT(all.n_cancelled, 50);
  EXPECT_GT(all.n_overdue_waiting, 20);
  EXPECT_GT(all.n_overdue_running, 20);
  EXPECT_GT(all.n_failed, 20);
  EXPECT_GT(all.n_preemptions, 50);
  EXPECT_GT(all.n_cached_tokens, all.n_prompt_tokens / 10);
  EXPECT_GT(all.n_merged_blocks, 10);
  EXPECT_GT(all.n_copies, 100);
  EXPECT_GT(all.n_overtakings, 20);
  EXPECT_GT(all.n_accepted, 500);
  EXPECT_GT(all.n_drafts, all.n_accepted);
  EXPECT_GT(all.n_loads, 100);
  EXPECT_GT(all.n_late_loads, 20);
  EXPECT_GT(all.n_loaded_blocks, 100);
}

// Pools of 1.0 to 3.0 times one request.
TEST(SchedulerLiveness, everyone_ends_in_bounded_steps_however_tight_the_pool) {
  constexpr int64_t kPrompt = 21;
  constexpr int64_t kNew = 20;  // 40 computed tokens, 10 blocks
  for (int64_t n_blocks = 10; n_blocks <= 30; ++n_blocks) {
    for (const bool has_cache : {false, true}) {
      for (const int64_t n_drafts : {0, 3}) {
        SchedulerLimits limits = small_limits(n_blocks);
        limits.has_prefix_cache = has_cache;
        limits.fills_steps = n_drafts > 0 && n_blocks % 2 == 0;
        limits.fair_quantum = n_blocks % 3 == 0 ? 16 : 0;
        Rig rig(limits);
        rig.n_drafts = n_drafts;
        for (SequenceId id = 0; id < 12; ++id) {
          rig.submit({.id = id,
                      .client = static_cast<int64_t>(id % 3),
                      .n_prompt = kPrompt,
                      .max_new = kNew});
        }
        int steps = 0;
        while (!rig.scheduler.is_idle()) {
          ASSERT_LT(++steps, 12 * 3 * (3 + kNew)) << n_blocks << " blocks";
          rig.step();
        }
        for (const auto& [id, sequence] : rig.executor.sequences()) {
          EXPECT_EQ(sequence.n_known(), kPrompt + kNew);
        }
      }
    }
  }
}

std::vector<TokenId> common_prompt(TokenId last) {
  std::vector<TokenId> tokens(23, 5);
  tokens.push_back(last);
  return tokens;
}

// Those whose prompt is in the cache stream past a cold one that waits for blocks.
TEST(SchedulerLiveness, a_cold_request_is_overtaken_so_many_times_and_not_once_more) {
  for (const int64_t max_overtakings : {0, 1, 3}) {
    SchedulerLimits limits = small_limits(20);
    limits.max_overtakings = max_overtakings;
    Rig rig(limits);
    rig.submit({.id = 1, .max_new = 200 - 144}, common_prompt(1));  // leaves the rest no room
    rig.step();
    rig.submit({.id = 2, .n_prompt = 60, .max_new = 1});  // cold
    std::vector<SequenceId> admitted;
    SequenceId next = 3;
    for (int i = 0; i < 200 && (admitted.empty() || admitted.back() != 2); ++i) {
      if (i % 2 == 0) {
        rig.submit({.id = next, .max_new = 2}, common_prompt(static_cast<TokenId>(next)));
        ++next;
      }
      const StepPlan plan = rig.step();
      admitted.insert(admitted.end(), plan.admitted.begin(), plan.admitted.end());
    }
    ASSERT_FALSE(admitted.empty());
    EXPECT_EQ(admitted.back(), 2U);
    EXPECT_EQ(std::ssize(admitted) - 1, max_overtakings);
  }
}

TEST(Scheduler, a_cold_one_behind_does_not_pass_whom_the_cache_would_let_pass) {
  Rig rig(small_limits(20));
  rig.submit({.id = 1, .max_new = 50}, common_prompt(1));
  for (int i = 0; i < 4; ++i) {
    rig.step();
  }
  rig.submit({.id = 2, .n_prompt = 60, .max_new = 1});                   // does not fit
  rig.submit({.id = 3, .n_prompt = 8, .max_new = 1});                    // would fit, is cold
  rig.submit({.id = 4, .priority = 1, .max_new = 1}, common_prompt(4));  // of lower priority
  EXPECT_THAT(rig.step().admitted, IsEmpty());
  rig.submit({.id = 5, .max_new = 1}, common_prompt(5));
  const StepPlan plan = rig.step();
  EXPECT_THAT(plan.admitted, ElementsAre(5));
  EXPECT_THAT(plan.overtaken, ElementsAre(2, 3));
}

TEST(Scheduler, drafts_take_no_block_while_somebody_waits_for_blocks) {
  for (const bool is_waiting : {false, true}) {
    Rig rig(small_limits(12));
    rig.n_drafts = 6;
    rig.submit({.id = 1, .n_prompt = 3, .max_new = 40});
    rig.step();
    if (is_waiting) {
      rig.submit({.id = 2, .n_prompt = 44, .max_new = 1});
    }
    const StepPlan plan = rig.step();  // token 4 of a block of 4
    EXPECT_THAT(plan.admitted, IsEmpty());
    EXPECT_EQ(plan.spans[0].n_drafts, is_waiting ? 0 : 6);
  }
}

TEST(Scheduler, limited_prompt_tokens_go_to_the_oldest_but_for_a_piece) {
  Rig rig(small_limits(60));
  rig.submit({.id = 1, .n_prompt = 4, .max_new = 50});
  rig.step();
  rig.submit({.id = 2, .n_prompt = 100, .max_new = 5});
  rig.submit({.id = 3, .n_prompt = 40, .max_new = 5});
  // Tokens of 1, 2 and so on.
  const auto counts = [&](int64_t max_prompt_tokens) {
    rig.max_prompt_tokens = max_prompt_tokens;
    std::vector<int64_t> counts;
    for (const SpanPlan& span : rig.step().spans) {
      EXPECT_EQ(span.sequence, counts.size() + 1);
      counts.push_back(span.count);
    }
    return counts;
  };
  EXPECT_THAT(counts(18), ElementsAre(1, 8, 8));
  EXPECT_THAT(counts(10), ElementsAre(1, 4, 4));
  EXPECT_THAT(counts(3), ElementsAre(1, 2, 1));  // less than a piece
  EXPECT_THAT(counts(0), ElementsAre(1, 1));     // the decodes alone take too long
  int steps = 0;
  while (!rig.scheduler.is_idle()) {
    ASSERT_LT(++steps, 200);
    rig.step();
  }
}

// Decodes first, then prompts up to the last piece of the budget, however their chunks fall.
TEST(Scheduler, steps_are_filled_with_prompts_beside_decodes) {
  for (const bool fills : {false, true}) {
    SchedulerLimits limits = small_limits(200);
    limits.max_batch_tokens = 30;
    limits.prefill_chunk = 16;
    limits.fills_steps = fills;
    Rig rig(limits);
    rig.submit({.id = 1, .n_prompt = 4, .max_new = 90});
    rig.step();
    for (SequenceId id = 2; id <= 5; ++id) {
      rig.submit({.id = id, .n_prompt = 100, .max_new = 1});
    }
    int64_t n_steps = 0;
    int64_t n_unfilled = 0;
    while (rig.scheduler.n_running() + rig.scheduler.n_waiting() > 2) {  // one more prompt behind
      const StepPlan plan = rig.step();
      EXPECT_EQ(plan.spans[0].sequence, 1U);
      n_unfilled += plan.n_tokens <= limits.max_batch_tokens - limits.block_tokens ? 1 : 0;
      ++n_steps;
    }
    EXPECT_EQ(n_unfilled == 0, fills);
    EXPECT_GT(n_steps, 8);
  }
}

TEST(Scheduler, who_fits_passes_who_does_not_when_steps_are_filled_but_not_for_ever) {
  SchedulerLimits limits = small_limits(20);
  limits.max_overtakings = 2;
  limits.fills_steps = true;
  Rig rig(limits);
  rig.submit({.id = 1, .n_prompt = 40, .max_new = 30});
  rig.step();
  rig.submit({.id = 2, .n_prompt = 60, .max_new = 1});  // does not fit
  rig.submit({.id = 3, .priority = 1, .n_prompt = 4, .max_new = 1});
  std::vector<SequenceId> admitted;
  for (SequenceId id = 4; id < 60; ++id) {
    rig.submit({.id = id, .n_prompt = 4, .max_new = 1});
    const StepPlan plan = rig.step();
    admitted.insert(admitted.end(), plan.admitted.begin(), plan.admitted.end());
  }
  ASSERT_GE(admitted.size(), 3U);
  admitted.resize(3);
  EXPECT_THAT(admitted, ElementsAre(4, 5, 2));
}

}  // namespace
}  // namespace millrace

// Blocks that arrive from a tier, or fail to, without a tier: the test says what has arrived.

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/scheduler_rig.h"

namespace millrace {
namespace {

std::vector<TokenId> run_of(TokenId first, int64_t n) {
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < n; ++i) {
    tokens.push_back(first + static_cast<TokenId>(i));
  }
  return tokens;
}

// A tier that has the first n_stored blocks of everybody.
struct LoadRig : Rig {
  explicit LoadRig(int64_t n_blocks, int64_t n_stored_blocks) : Rig(small_limits(n_blocks)) {
    scheduler.load_from([this, n_stored_blocks](SequenceId, int64_t first) {
      ++n_lookups;
      return std::max<int64_t>(n_stored_blocks - first, 0);
    });
  }

  // A step that plans a load and nothing else.
  std::vector<BlockId> start_load(SequenceId id) {
    const StepPlan plan = step();
    EXPECT_TRUE(plan.spans.empty());
    EXPECT_EQ(plan.loads.size(), 1U);
    EXPECT_EQ(plan.loads.at(0).sequence, id);
    const auto blocks = plan.blocks_to_load(plan.loads[0]);
    EXPECT_EQ(scheduler.pool().n_in_transfer(), std::ssize(blocks));
    for (const BlockId block : blocks) {
      executor.spoil(block);
    }
    return {blocks.begin(), blocks.end()};
  }
  int64_t finish_load(SequenceId id, const std::vector<BlockId>& blocks, int64_t n_arrived) {
    for (int64_t i = 0; i < n_arrived && executor.sequences().contains(id); ++i) {
      executor.fill(blocks[static_cast<size_t>(i)], id, i);
    }
    const int64_t n_found = scheduler.finish_load(id, n_arrived);
    EXPECT_TRUE(scheduler.check());
    EXPECT_EQ(scheduler.pool().n_in_transfer(), 0);
    return n_found;
  }

  int64_t n_lookups = 0;
};

TEST(SchedulerLoads, sequence_starts_behind_the_blocks_that_have_arrived) {
  LoadRig rig(20, 3);
  rig.submit({.id = 1, .max_new = 2}, run_of(0, 15));
  const auto blocks = rig.start_load(1);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_TRUE(rig.step().is_empty());  // it waits
  EXPECT_EQ(rig.finish_load(1, blocks, 3), 3);
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.spans.size(), 1U);
  EXPECT_EQ(plan.spans[0].begin, 12);
  EXPECT_EQ(rig.scheduler.counters().n_cached_tokens, 12);
  EXPECT_EQ(rig.scheduler.counters().n_loaded_blocks, 3);
}

TEST(SchedulerLoads, what_did_not_arrive_is_computed) {
  for (const int64_t n_arrived : {0, 1, 2}) {
    LoadRig rig(20, 3);
    rig.submit({.id = 1, .max_new = 2}, run_of(0, 15));
    const auto blocks = rig.start_load(1);
    EXPECT_EQ(rig.finish_load(1, blocks, n_arrived), n_arrived);
    EXPECT_EQ(rig.step().spans.at(0).begin, 4 * n_arrived);  // and no second load
  }
}

TEST(SchedulerLoads, fewer_blocks_than_are_worth_it_are_computed) {
  LoadRig rig(20, 1);
  rig.submit({.id = 1, .max_new = 2}, run_of(0, 15));
  const StepPlan plan = rig.step();
  EXPECT_TRUE(plan.loads.empty());
  EXPECT_EQ(plan.spans.at(0).begin, 0);
}

TEST(SchedulerLoads, only_what_memory_lacks_is_loaded) {
  LoadRig rig(20, 5);
  rig.submit({.id = 1, .max_new = 0}, run_of(0, 8));
  const auto first = rig.start_load(1);
  rig.finish_load(1, first, 2);
  rig.step();
  rig.submit({.id = 2, .max_new = 1}, run_of(0, 21));
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.loads.size(), 1U);
  EXPECT_EQ(plan.loads[0].n_held, 2);
  EXPECT_EQ(plan.loads[0].n_new, 3);
}

TEST(SchedulerLoads, others_go_on_while_one_waits_for_its_blocks) {
  LoadRig rig(20, 3);
  rig.submit({.id = 1, .max_new = 2}, run_of(0, 15));
  rig.submit({.id = 2, .max_new = 2}, run_of(500, 3));
  const StepPlan plan = rig.step();
  EXPECT_EQ(plan.loads.size(), 1U);
  ASSERT_EQ(plan.spans.size(), 1U);
  EXPECT_EQ(plan.spans[0].sequence, 2U);
}

TEST(SchedulerLoads, who_needs_the_same_blocks_waits_for_the_one_load) {
  LoadRig rig(30, 3);
  rig.submit({.id = 1, .max_new = 2}, run_of(0, 15));
  rig.submit({.id = 2, .max_new = 2}, run_of(0, 14));
  const auto blocks = rig.start_load(1);
  EXPECT_TRUE(rig.step().is_empty());
  rig.finish_load(1, blocks, 3);
  const StepPlan plan = rig.step();
  ASSERT_GE(plan.spans.size(), 1U);
  EXPECT_EQ(plan.spans[0].begin, 12);
  EXPECT_TRUE(plan.loads.empty());
}

TEST(SchedulerLoads, late_load_is_not_waited_for_and_its_memory_stays_untouched) {
  LoadRig rig(20, 3);
  rig.submit({.id = 1, .max_new = 2}, run_of(0, 15));
  const auto blocks = rig.start_load(1);
  rig.scheduler.give_up_load(1);
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.spans.size(), 1U);
  EXPECT_EQ(plan.spans[0].begin, 0);
  for (const BlockId block : plan.blocks) {
    EXPECT_EQ(std::ranges::find(blocks, block), blocks.end());
  }
  EXPECT_EQ(rig.scheduler.pool().n_in_transfer(), 3);
  EXPECT_EQ(rig.finish_load(1, blocks, 3), 3);  // found, in the memory of the one or the other
  while (!rig.scheduler.is_idle()) {
    rig.step();
  }
}

TEST(SchedulerLoads, cancelled_sequence_leaves_its_blocks_to_the_tier_until_the_end) {
  LoadRig rig(20, 3);
  rig.submit({.id = 1, .max_new = 2}, run_of(0, 15));
  const auto blocks = rig.start_load(1);
  rig.scheduler.remove(1);
  rig.executor.forget(1);
  EXPECT_TRUE(rig.scheduler.check());
  EXPECT_EQ(rig.scheduler.pool().n_in_transfer(), 3);
  EXPECT_EQ(rig.finish_load(1, blocks, 3), 0);
  EXPECT_EQ(rig.scheduler.pool().n_cached(), 0);
}

TEST(SchedulerLoads, load_takes_no_block_that_running_sequences_may_need) {
  LoadRig rig(6, 4);
  rig.submit({.id = 1, .max_new = 8}, run_of(500, 3));
  rig.step();
  rig.submit({.id = 2, .max_new = 1}, run_of(0, 17));  // five blocks, and one for the other
  EXPECT_TRUE(rig.step().loads.empty());
}

TEST(SchedulerLoads, prompt_log_probabilities_are_computed_and_never_loaded) {
  LoadRig rig(20, 3);
  rig.submit({.id = 1, .max_new = 2, .wants_prompt_logits = true}, run_of(0, 15));
  EXPECT_EQ(rig.step().spans.at(0).begin, 0);
  EXPECT_EQ(rig.n_lookups, 0);
}

TEST(SchedulerLoads, whole_blocks_are_reported_when_computed_and_when_found) {
  LoadRig rig(20, 0);
  for (SequenceId id = 1; id <= 2; ++id) {
    rig.submit({.id = id, .max_new = 0}, run_of(0, 11));
    std::vector<int64_t> indices;
    while (!rig.scheduler.is_idle()) {
      rig.step();
      for (const WholeBlock& whole : rig.scheduler.whole_blocks()) {
        EXPECT_EQ(whole.sequence, id);
        indices.push_back(whole.index);
      }
    }
    EXPECT_EQ(indices, (std::vector<int64_t>{0, 1}));
  }
}

}  // namespace
}  // namespace millrace

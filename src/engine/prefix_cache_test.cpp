// The scheduler and the prefix index together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/scheduler_rig.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// n tokens that count up from first.
std::vector<TokenId> run_of(TokenId first, int64_t n) {
  std::vector<TokenId> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<TokenId> joined(std::vector<TokenId> tokens, const std::vector<TokenId>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

void finish_all(Rig& rig) {
  for (int i = 0; i < 1'000 && !rig.scheduler.is_idle(); ++i) {
    rig.step();
  }
  ASSERT_TRUE(rig.scheduler.is_idle());
}

TEST(PrefixCache, prompt_seen_before_is_computed_from_its_last_token_on_whatever_its_length) {
  for (int64_t n = 1; n <= 20; ++n) {
    Rig rig(small_limits(40));
    rig.submit({.id = 1, .max_new = 3}, run_of(0, n));
    finish_all(rig);
    rig.submit({.id = 2, .max_new = 3}, run_of(0, n));
    const StepPlan plan = rig.step();
    ASSERT_EQ(plan.spans.size(), 1U) << n;
    EXPECT_EQ(plan.spans[0].begin, n - 1);
    EXPECT_EQ(plan.spans[0].count, 1);
    EXPECT_EQ(rig.scheduler.counters().n_cached_tokens, n - 1);
    EXPECT_EQ(rig.scheduler.pool().n_used(), blocks_for(n, 4));
    finish_all(rig);
  }
}

TEST(PrefixCache, beginnings_are_shared_to_the_token) {
  for (int64_t n_shared = 0; n_shared <= 16; ++n_shared) {
    Rig rig(small_limits(40));
    rig.submit({.id = 1, .max_new = 3}, run_of(0, 19));
    finish_all(rig);
    rig.submit({.id = 2, .max_new = 3}, joined(run_of(0, n_shared), run_of(1'000, 5)));
    EXPECT_EQ(rig.step().spans[0].begin, n_shared);
    finish_all(rig);
  }
}

TEST(PrefixCache, conversation_goes_on_from_the_end_of_the_last_answer) {
  Rig rig(small_limits(40));
  rig.submit({.id = 1, .max_new = 6}, run_of(0, 9));
  const std::vector<TokenId>& answered = rig.executor.sequences()[1].tokens;
  finish_all(rig);
  ASSERT_EQ(answered.size(), 15U);
  rig.submit({.id = 2, .max_new = 2}, joined(answered, run_of(500, 3)));
  EXPECT_EQ(rig.step().spans[0].begin, 14);  // the last token of an answer is never computed
}

TEST(PrefixCache, whole_blocks_are_shared_by_running_sequences_and_the_last_one_is_copied) {
  Rig rig(small_limits(40));
  rig.submit({.id = 1, .max_new = 20}, run_of(0, 14));
  rig.step();
  rig.step();
  ASSERT_EQ(rig.scheduler.pool().n_used(), 4);
  rig.submit({.id = 2, .max_new = 20}, run_of(0, 14));
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.spans.size(), 2U);
  ASSERT_EQ(plan.copies.size(), 1U);
  EXPECT_EQ(plan.spans[1].begin, 13);
  EXPECT_EQ(rig.scheduler.pool().n_used(), 5);
  finish_all(rig);
}

TEST(PrefixCache, those_behind_a_sequence_that_computes_what_they_share_wait_and_then_find_it) {
  Rig rig(small_limits(60));
  for (SequenceId id = 1; id <= 4; ++id) {
    rig.submit({.id = id, .max_new = 2},
               joined(run_of(0, 20), run_of(static_cast<TokenId>(1'000 * id), 3)));
  }
  rig.submit({.id = 5, .max_new = 2}, run_of(9'000, 6));
  EXPECT_THAT(rig.step().admitted, ElementsAre(1, 5));  // who shares nothing does not wait
  EXPECT_THAT(rig.step().admitted, IsEmpty());
  const StepPlan plan = [&] {
    rig.step();
    return rig.step();
  }();
  EXPECT_THAT(plan.admitted, ElementsAre(2, 3, 4));
  finish_all(rig);
  EXPECT_EQ(rig.scheduler.counters().n_cached_tokens, 3 * 20);
}

TEST(PrefixCache, nobody_waits_for_a_sequence_of_lower_priority) {
  Rig rig(small_limits(60));
  rig.submit({.id = 1, .priority = 5, .max_new = 2}, run_of(0, 20));
  rig.step();
  rig.submit({.id = 2, .priority = 0, .max_new = 2}, run_of(0, 20));
  EXPECT_THAT(rig.step().admitted, ElementsAre(2));
  finish_all(rig);
  EXPECT_GT(rig.scheduler.counters().n_merged_blocks, 0);
}

TEST(PrefixCache, namespaces_do_not_see_each_other) {
  Rig rig(small_limits(60));
  SequenceId id = 0;
  const auto n_found = [&](std::string_view space) {
    rig.submit({.id = ++id, .max_new = 2, .cache_namespace = space}, run_of(0, 20));
    const int64_t before = rig.scheduler.counters().n_cached_tokens;
    finish_all(rig);
    return rig.scheduler.counters().n_cached_tokens - before;
  };
  EXPECT_EQ(n_found(""), 0);
  EXPECT_EQ(n_found("a"), 0);
  EXPECT_EQ(n_found("b"), 0);
  EXPECT_EQ(n_found("a"), 19);
  EXPECT_EQ(n_found("b"), 19);
  EXPECT_EQ(n_found(""), 19);
}

TEST(PrefixCache, prompt_logits_are_computed_whatever_is_cached_and_fill_the_cache) {
  Rig rig(small_limits(40));
  for (SequenceId id = 1; id <= 2; ++id) {
    rig.submit({.id = id, .max_new = 2, .wants_prompt_logits = true}, run_of(0, 10));
    EXPECT_EQ(rig.step().spans[0].begin, 0);
    finish_all(rig);
  }
  rig.submit({.id = 3, .max_new = 2}, run_of(0, 10));
  EXPECT_EQ(rig.step().spans[0].begin, 9);
}

TEST(PrefixCache, what_a_failed_step_computed_is_not_found) {
  Rig rig(small_limits(40));
  rig.submit({.id = 1, .max_new = 2}, run_of(0, 14));
  rig.step();  // 8 tokens
  StepPlan plan = rig.scheduler.plan();
  rig.executor.run(plan);
  rig.scheduler.apply(std::move(plan), {{.is_finished = true, .is_failed = true}});
  EXPECT_TRUE(rig.scheduler.check());
  rig.submit({.id = 2, .max_new = 2}, run_of(0, 14));
  EXPECT_EQ(rig.step().spans[0].begin, 8);
}

TEST(PrefixCache, preempted_sequence_finds_what_nobody_took) {
  Rig rig(small_limits(10));
  rig.submit({.id = 1, .max_new = 20}, run_of(0, 11));
  rig.submit({.id = 2, .max_new = 20}, run_of(1'000, 7));
  finish_all(rig);
  const SchedulerCounters& counters = rig.scheduler.counters();
  ASSERT_GT(counters.n_preemptions, 0);
  Rig uncached([] {
    SchedulerLimits limits = small_limits(10);
    limits.has_prefix_cache = false;
    return limits;
  }());
  uncached.submit({.id = 1, .max_new = 20}, run_of(0, 11));
  uncached.submit({.id = 2, .max_new = 20}, run_of(1'000, 7));
  finish_all(uncached);
  ASSERT_GT(uncached.scheduler.counters().n_preemptions, 0);
  EXPECT_LT(counters.n_recomputed_tokens, uncached.scheduler.counters().n_recomputed_tokens);
  EXPECT_EQ(uncached.scheduler.counters().n_cached_tokens, 0);
}

TEST(PrefixCache, hit_that_needs_the_whole_pool_is_taken_without_a_copy) {
  Rig rig(small_limits(5));
  for (SequenceId id = 1; id <= 2; ++id) {
    rig.submit({.id = id, .max_new = 1}, run_of(0, 20));  // five whole blocks
    finish_all(rig);
  }
  EXPECT_EQ(rig.scheduler.counters().n_cached_tokens, 16);
}

}  // namespace
}  // namespace millrace

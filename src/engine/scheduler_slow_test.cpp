#include <gtest/gtest.h>

#include "engine/scheduler_fuzz.h"

namespace millrace {
namespace {

TEST(SchedulerFuzzSlow, a_million_random_steps) {
  constexpr int kSteps = 1'000'000;
  FuzzTotals all;
  int n_steps = 0;
  for (uint32_t seed = 1'000; n_steps < kSteps; ++seed) {
    SchedulerLimits limits{.n_blocks = 4 + seed % 37,
                           .block_tokens = 4,
                           .max_sequences = 1 + seed % 9,
                           .max_batch_tokens = 8 * (1 + seed % 5),
                           .prefill_chunk = 8,
                           .max_logits = 4 + seed % 11,
                           .max_overtakings = seed % 4,
                           .has_prefix_cache = seed % 5 != 0,
                           .n_key_bits = seed % 3 == 0 ? 8 : 128,
                           .fills_steps = seed % 11 < 4,
                           .fair_quantum = seed % 4 == 1 ? 8 + seed % 60 : 0};
    SchedulerFuzz fuzz(limits, seed, seed % 7 != 0, seed % 2 == 0, seed % 3 != 0);
    for (int i = 0; i < 5'000; ++i, ++n_steps) {
      fuzz.step(1 + static_cast<int>(seed % 8));
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    }
    fuzz.finish();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    all += fuzz.totals();
  }
  EXPECT_GT(all.n_finished, 20'000);
  EXPECT_GT(all.n_preemptions, 5'000);
  EXPECT_GT(all.n_cached_tokens, all.n_prompt_tokens / 10);
  EXPECT_GT(all.n_merged_blocks, 1'000);
  EXPECT_GT(all.n_copies, 10'000);
  EXPECT_GT(all.n_accepted, 100'000);
  EXPECT_GT(all.n_loads, 10'000);
  EXPECT_GT(all.n_late_loads, 1'000);
  EXPECT_GT(all.n_loaded_blocks, 10'000);
}

}  // namespace
}  // namespace millrace

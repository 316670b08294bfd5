#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int64_t kMiB = 1 << 20;

// 1 MiB a block of 64 tokens, a window of 1,024 tokens: 16 MiB a full sequence.
MemoryPlanInput input(int64_t free_bytes) {
  return {.weight_bytes = 100 * kMiB,
          .block_bytes = kMiB,
          .free_bytes = free_bytes,
          .context_length = 1'024,
          .max_sequences = 4};
}

TEST(MemoryPlan, takes_half_of_free_memory_but_no_more_than_the_sequences_need) {
  const auto tight = plan_memory(input(80 * kMiB));
  ASSERT_TRUE(tight);
  EXPECT_EQ(tight->n_blocks, 40);
  EXPECT_EQ(tight->max_model_len, 1'024);
  EXPECT_EQ(tight->n_sequences_that_fit(1'024), 2);
  EXPECT_EQ(tight->n_sequences_that_fit(65), 20);
  EXPECT_EQ(tight->kv_bytes_per_token(), kMiB / 64);
  const auto ample = plan_memory(input(10'000 * kMiB));
  ASSERT_TRUE(ample);
  EXPECT_EQ(ample->n_blocks, 64);
}

TEST(MemoryPlan, window_shrinks_to_what_memory_allows_unless_it_was_asked_for) {
  const auto shrunk = plan_memory(input(8 * kMiB));
  ASSERT_TRUE(shrunk);
  EXPECT_EQ(shrunk->max_model_len, 4 * 64);
  EXPECT_THAT(shrunk->describe(), testing::HasSubstr("1 sequences of 256 tokens"));
  MemoryPlanInput asked = input(8 * kMiB);
  asked.max_model_len = 1'024;
  const auto refused = plan_memory(asked);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("16.0 MiB"));
  EXPECT_FALSE(plan_memory(input(kMiB)));  // not even one block
}

TEST(MemoryPlan, asked_for_memory_is_taken_as_it_is) {
  MemoryPlanInput asked = input(0);
  asked.kv_memory = 100 * kMiB;
  const auto plan = plan_memory(asked);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->n_blocks, 100);
  asked.kv_memory = -1;
  EXPECT_FALSE(plan_memory(asked));
  asked.kv_memory = 100 * kMiB;
  for (const int64_t bad : {int64_t{-5}, int64_t{0}, int64_t{1}, int64_t{1'025}}) {
    asked.max_model_len = bad;
    const auto refused = plan_memory(asked);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(MemoryPlan, this_machine_has_some_memory) {
  EXPECT_GT(free_memory_bytes(), kMiB);
}

}  // namespace
}  // namespace millrace

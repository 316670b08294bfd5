#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/worker_pool.h"
#include "engine/step_limits.h"
#include "engine/test_engine.h"
#include "kv/kv_memory.h"
#include "model/model.h"

namespace millrace {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kModelBytes = 105 * kMiB;

// 1 MiB a block of 64 tokens, a window of 1,024 tokens: 16 MiB a full sequence.
MemoryPlanInput input(int64_t bytes_beside_model) {
  return {.weight_bytes = 100 * kMiB,
          .scratch_bytes = 3 * kMiB,
          .logits_bytes = 2 * kMiB,
          .block_bytes = kMiB,
          .free_bytes = kModelBytes + bytes_beside_model,
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
  EXPECT_THAT(shrunk->describe(), testing::HasSubstr("1 sequence of 256 tokens"));
  MemoryPlanInput asked = input(8 * kMiB);
  asked.max_model_len = 1'024;
  const auto refused = plan_memory(asked);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("16.0 MiB"));
  EXPECT_FALSE(plan_memory(input(kMiB)));  // not even one block
}

TEST(MemoryPlan, asked_for_memory_is_taken_as_it_is) {
  MemoryPlanInput asked = input(100 * kMiB);
  asked.kv_memory = 100 * kMiB;
  const auto plan = plan_memory(asked);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->n_blocks, 100);
  EXPECT_EQ(plan->total_bytes(), 205 * kMiB);
  EXPECT_THAT(
      plan->describe(),
      testing::HasSubstr("weights 100 MiB, scratch 5.0 MiB, tables 0 B, KV 100 MiB in bf16"));
  for (const int64_t bad : {int64_t{-5}, int64_t{0}, int64_t{1}, int64_t{1'025}}) {
    asked.max_model_len = bad;
    const auto refused = plan_memory(asked);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(MemoryPlan, memory_that_is_not_there_is_refused_with_both_sizes) {
  MemoryPlanInput asked = input(100 * kMiB);
  asked.kv_memory = 101 * kMiB;
  const auto refused = plan_memory(asked);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("101 MiB was asked for"));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("205 MiB are free"));
  for (const int64_t huge : {int64_t{-1}, kMaxKvMemory + 1, std::numeric_limits<int64_t>::max()}) {
    asked.kv_memory = huge;
    EXPECT_EQ(plan_memory(asked).error().code, ErrorCode::kInvalidArgument);
  }
  const auto crowded = plan_memory(input(-kMiB));
  ASSERT_FALSE(crowded);
  EXPECT_EQ(crowded.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(crowded.error().message, testing::HasSubstr("100 MiB of weights"));
  EXPECT_THAT(crowded.error().message, testing::HasSubstr("104 MiB are free"));
}

// Without --max-model-len there is none to lower.
TEST(MemoryPlan, less_than_a_block_is_refused_with_the_size_of_one) {
  MemoryPlanInput less = input(100 * kMiB);
  less.kv_memory = kMiB - 1;
  const auto refused = plan_memory(less);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("need 1.0 MiB of KV memory"));
  EXPECT_THAT(refused.error().message, testing::Not(testing::HasSubstr("--max-model-len")));
  less.max_model_len = 100;
  EXPECT_THAT(plan_memory(less).error().message, testing::HasSubstr("--max-model-len"));
}

TEST(MemoryPlan, where_free_memory_is_unknown_the_size_must_be_named) {
  MemoryPlanInput unknown = input(0);
  unknown.free_bytes.reset();
  EXPECT_THAT(plan_memory(unknown).error().message, testing::HasSubstr("--kv-memory"));
  unknown.kv_memory = 100 * kMiB;
  EXPECT_EQ(plan_memory(unknown)->n_blocks, 100);
}

TEST(MemoryPlan, blocks_are_no_more_than_their_tables_are_good_for) {
  MemoryPlanInput tiny = input(int64_t{1} << 40);
  tiny.block_bytes = 64;
  tiny.kv_memory = int64_t{1} << 40;
  EXPECT_EQ(plan_memory(tiny)->n_blocks, kMaxBlocks);
}

TEST(MemoryPlan, tables_count_with_the_blocks_they_are_of) {
  MemoryPlanInput tabled = input(102 * kMiB);
  tabled.fixed_table_bytes = 2 * kMiB;
  tabled.block_table_bytes = kMiB / 4;
  EXPECT_EQ(plan_memory(tabled)->n_blocks, 40);  // half of 100 MiB at 1.25 a block
  EXPECT_EQ(plan_memory(tabled)->table_bytes, 12 * kMiB);
  EXPECT_EQ(plan_memory(tabled)->total_bytes(), kModelBytes + 52 * kMiB);
  tabled.kv_memory = 80 * kMiB;
  EXPECT_EQ(plan_memory(tabled)->n_blocks, 80);
  tabled.kv_memory = 81 * kMiB;
  EXPECT_EQ(plan_memory(tabled).error().code, ErrorCode::kResourceExhausted);
}

TEST(MemoryPlan, tables_grow_with_blocks_sequences_threads_and_speculation) {
  const TestModel model;
  const auto files = open_model_files(model.path());
  ASSERT_TRUE(files);
  EngineOptions options;
  options.n_threads = 2;
  options.kv_memory = 3 * kMiB;
  const int64_t tables = plan_memory(*files, options)->table_bytes;
  const auto with = [&](auto change) {
    EngineOptions changed = options;
    change(changed);
    return plan_memory(*files, changed)->table_bytes - tables;
  };
  EXPECT_GT(with([](EngineOptions& changed) { changed.kv_memory = 6 * kMiB; }), 350);
  EXPECT_GT(with([](EngineOptions& changed) { changed.max_sequences *= 2; }), 64 * 4'096);
  EXPECT_GT(with([](EngineOptions& changed) { changed.n_threads = 3; }), 320 * 16);
  EXPECT_LT(with([](EngineOptions& changed) { changed.max_drafts = 0; }), -(1 << 20));
}

TEST(MemoryPlan, this_machine_has_some_memory) {
  EXPECT_GT(free_memory_bytes().value_or(0), kMiB);
}

// The parts that an engine makes are as large as planned.
TEST(MemoryPlan, is_what_an_engine_allocates) {
  for (const DType dtype : {DType::kF32, DType::kQ8_0, DType::kQ5_1, DType::kQ4_K}) {
    SCOPED_TRACE(dtype_info(dtype).name);
    const TestModel model(dtype);
    const auto files = open_model_files(model.path());
    ASSERT_TRUE(files) << files.error().message;
    EngineOptions options;
    options.n_threads = 2;
    options.max_sequences = 5;
    options.kv_memory = 3 * kMiB;
    const auto plan = plan_memory(*files, options);
    ASSERT_TRUE(plan) << plan.error().message;
    WorkerPool pool(2);
    const auto loaded = Model::load(*files->checkpoint,
                                    {.pool = &pool, .max_batch_tokens = max_step_tokens(options)});
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(plan->weight_bytes, static_cast<int64_t>((*loaded)->weight_bytes()));
    EXPECT_EQ(plan->scratch_bytes, static_cast<int64_t>((*loaded)->scratch_bytes()));
    EXPECT_EQ(plan->logits_bytes, (5 + 64) * (320 + 10) * 4);
    const ModelSpec& spec = (*loaded)->spec();
    const auto kv =
        KvMemory::create((*loaded)->page_format(), spec.n_layers, spec.n_kv_heads, plan->n_blocks);
    ASSERT_TRUE(kv);
    EXPECT_EQ(plan->block_bytes, static_cast<int64_t>(kv->block_bytes()));
    const TestEngine engine(model.path(), options);
    EXPECT_EQ(engine.engine->info().weight_bytes, plan->weight_bytes);
    EXPECT_EQ(engine.engine->info().kv_bytes, plan->kv_bytes());
  }
}

TEST(MemoryPlan, draft_model_counts_with_its_logits) {
  const TestModel model;
  const auto files = open_model_files(model.path());
  ASSERT_TRUE(files);
  EngineOptions options;
  options.max_sequences = 5;
  options.kv_memory = 3 * kMiB;
  const auto one = plan_memory(*files, options);
  const auto two = plan_memory(*files, options, &*files);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(two->weight_bytes, 2 * one->weight_bytes);
  EXPECT_EQ(two->scratch_bytes, 2 * one->scratch_bytes + 5 * (320 + 10) * 4);
  EXPECT_EQ(two->logits_bytes, one->logits_bytes);
  EXPECT_EQ(two->block_bytes, 2 * one->block_bytes);
}

TEST(MemoryPlan, an_engine_refuses_what_is_not_there) {
  const TestModel model;
  auto files = open_model_files(model.path());
  ASSERT_TRUE(files);
  Metrics metrics;
  EngineOptions options;
  options.n_threads = 1;
  options.kv_memory = kMaxKvMemory;
  const auto engine = Engine::create(*std::move(files), options, metrics);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(engine.error().message, testing::HasSubstr("64.0 TiB was asked for"));
}

}  // namespace
}  // namespace millrace

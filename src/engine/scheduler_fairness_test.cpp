#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/scheduler.h"
#include "engine/scheduler_rig.h"

namespace millrace {
namespace {

using testing::ElementsAre;

SchedulerLimits fair_limits(int64_t n_blocks) {
  SchedulerLimits limits = small_limits(n_blocks);
  limits.fair_quantum = 32;
  return limits;
}

// A rig that knows whose sequences are whose and counts what was computed for each client.
struct FairRig : Rig {
  using Rig::Rig;

  SequenceId submit_for(int64_t client, int64_t n_prompt, int64_t max_new, int64_t priority = 0) {
    const SequenceId id = next_id++;
    clients.push_back(client);
    submit({.id = id,
            .priority = priority,
            .client = client,
            .n_prompt = n_prompt,
            .max_new = max_new});
    return id;
  }
  StepPlan step_and_count() {
    const auto n_known = [&](SequenceId id) { return executor.sequences().at(id).n_known(); };
    std::map<SequenceId, int64_t> before;
    for (const auto& [id, sequence] : executor.sequences()) {
      before[id] = n_known(id);
    }
    StepPlan plan = step();
    for (const SpanPlan& span : plan.spans) {
      const int64_t n_new = n_known(span.sequence) - before[span.sequence];
      served[clients[span.sequence]] +=
          span.n_drafts > 0 ? n_new : span.count;  // of drafts those that were right, and one more
    }
    return plan;
  }

  SequenceId next_id = 0;
  std::vector<int64_t> clients;  // of each sequence
  std::map<int64_t, int64_t> served;
};

// However the flood is made up, whenever the other one comes, and whether places are scarce: of the
// flood no more than a turn and the step that ends it is begun and computed before.
TEST(SchedulerFairness, one_request_waits_for_a_turn_of_the_flood_and_not_for_the_flood) {
  int64_t n_most = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    SchedulerLimits limits = fair_limits(2'000);
    limits.max_sequences = seed % 2 == 0 ? 200 : 8;
    limits.fills_steps = seed % 3 == 0;
    FairRig rig(limits);
    rig.max_prompt_tokens = seed % 5 == 0 ? 12 : Scheduler::kNoLimit;
    const auto flood =
        static_cast<int64_t>(seed / 2 % 2);  // its number may be the lower one or not
    for (int i = 0; i < 100; ++i) {
      rig.submit_for(flood,
                     1 + static_cast<int64_t>(random() % 60),
                     1 + static_cast<int64_t>(random() % 12),
                     -static_cast<int64_t>(random() % 3));
    }
    for (uint32_t i = random() % 20; i > 0; --i) {
      rig.step_and_count();
    }
    const SequenceId other = rig.submit_for(1 - flood, 20, 4);
    std::vector<SequenceId> begun;  // of the flood, from now on
    int64_t n_computed = 0;         // for them
    for (bool has_begun = false; !has_begun;) {
      ASSERT_FALSE(rig.scheduler.is_idle());
      const StepPlan plan = rig.step_and_count();
      begun.insert(begun.end(), plan.admitted.begin(), plan.admitted.end());
      has_begun = std::ranges::find(plan.admitted, other) != plan.admitted.end();
      for (const SpanPlan& span : plan.spans) {
        const bool counts = !has_begun && std::ranges::find(begun, span.sequence) != begun.end();
        n_computed += counts ? span.count : 0;
      }
    }
    EXPECT_LE(n_computed, limits.fair_quantum + limits.max_batch_tokens) << "seed " << seed;
    n_most = std::max(n_most, n_computed);
  }
  EXPECT_GT(n_most, 0);  // somebody had to wait at all
}

// What a client has beyond its share is a turn, a step, and what its running sequences write
// before it is its turn again.
TEST(SchedulerFairness, clients_that_always_wait_get_the_same_tokens) {
  constexpr int64_t kMostNew = 10;
  for (const int64_t quantum : {0, 16, 32, 100}) {
    for (const int64_t n_drafts : {0, 3}) {
      SchedulerLimits limits = fair_limits(300);
      limits.fair_quantum = quantum;
      limits.fills_steps = n_drafts > 0;
      FairRig rig(limits);
      rig.n_drafts = n_drafts;
      // Long prompts and short answers, short prompts and long answers, and one that says that all
      // it sends is urgent. The first sends three times as many.
      constexpr int64_t kPrompts[] = {40, 3, 20};
      constexpr int64_t kNew[] = {2, kMostNew, 5};
      std::map<int64_t, int64_t> n_there;
      for (int step = 0; step < 3'000; ++step) {
        n_there.clear();
        for (const auto& [id, sequence] : rig.executor.sequences()) {
          ++n_there[rig.clients[id]];
        }
        for (int64_t client = 0; client < 3; ++client) {
          for (int64_t n = n_there[client]; n < limits.max_sequences * (client == 0 ? 3 : 1) + 4;
               ++n) {
            rig.submit_for(client, kPrompts[client], kNew[client], client == 2 ? -1'000 : 0);
          }
        }
        const StepPlan plan = rig.step_and_count();
        for (const SpanPlan& span : plan.spans) {
          const auto& sequence = rig.executor.sequences().at(span.sequence);
          if (sequence.n_known() == sequence.n_prompt + sequence.max_new) {
            rig.executor.forget(span.sequence);
          }
        }
        if (quantum > 0) {
          const auto [least, most] = std::minmax({rig.served[0], rig.served[1], rig.served[2]});
          ASSERT_LE(most - least,
                    quantum + 2 * limits.max_batch_tokens + limits.max_sequences * kMostNew)
              << "step " << step << ", quantum " << quantum;
          for (int64_t client = 0; client < 3; ++client) {
            ASSERT_EQ(rig.scheduler.n_served(client), rig.served[client]);
          }
        }
      }
      const int64_t n_all = rig.served[0] + rig.served[1] + rig.served[2];
      EXPECT_GT(n_all, 20'000);
      if (quantum == 0) {  // the urgent one takes it all
        EXPECT_GT(rig.served[2], n_all * 9 / 10);
      }
    }
  }
}

TEST(SchedulerFairness, places_of_one_step_go_round_while_turns_last) {
  FairRig small(fair_limits(300));  // eight places
  for (int i = 0; i < 10; ++i) {
    small.submit_for(0, 1, 5);
  }
  for (int i = 0; i < 3; ++i) {
    small.submit_for(1, 1, 5);
  }
  EXPECT_THAT(small.step_and_count().admitted, ElementsAre(0, 10, 1, 11, 2, 12, 3, 4));
  FairRig large(fair_limits(300));
  for (int i = 0; i < 10; ++i) {
    large.submit_for(0, 40, 5);  // one is more than a turn
  }
  for (int i = 0; i < 10; ++i) {
    large.submit_for(1, 4, 5);
  }
  EXPECT_THAT(large.step_and_count().admitted, ElementsAre(0, 10, 11, 12, 13, 14, 15));
}

TEST(SchedulerFairness, time_away_earns_nothing) {
  FairRig rig(fair_limits(300));
  rig.submit_for(1, 8, 1);
  for (int i = 0; i < 400; ++i) {
    rig.submit_for(0, 30, 2);
  }
  for (int i = 0; i < 200; ++i) {
    rig.step_and_count();
  }
  ASSERT_GT(rig.served[0], 3'000);
  ASSERT_EQ(rig.served[1], 8);
  const auto before = rig.served;
  for (int i = 0; i < 400; ++i) {
    rig.submit_for(1, 30, 2);
  }
  for (int i = 0; i < 100; ++i) {
    rig.step_and_count();
  }
  const int64_t n_first = rig.served[0] - before.at(0);
  const int64_t n_second = rig.served[1] - before.at(1);
  EXPECT_NEAR(static_cast<double>(n_first), static_cast<double>(n_second), 32 + 2 * 32 + 8 * 2);
  EXPECT_GT(n_first, 1'000);
}

TEST(SchedulerFairness, priorities_are_among_those_of_one_client) {
  SchedulerLimits limits = fair_limits(100);
  limits.max_sequences = 1;
  FairRig rig(limits);
  for (const int64_t priority : {5, -5}) {
    rig.submit_for(0, 40, 1, priority);
    rig.submit_for(1, 40, 1, priority + 100);
  }
  std::vector<SequenceId> admitted;
  while (!rig.scheduler.is_idle()) {
    const StepPlan plan = rig.step_and_count();
    admitted.insert(admitted.end(), plan.admitted.begin(), plan.admitted.end());
  }
  EXPECT_THAT(admitted, ElementsAre(2, 3, 0, 1));
}

TEST(SchedulerFairness, a_prompt_that_runs_makes_room_for_one_whose_turn_it_is) {
  FairRig rig(fair_limits(400));
  for (int i = 0; i < 4; ++i) {  // fill every step for long
    rig.submit_for(0, 300, 1);
  }
  for (int i = 0; i < 5; ++i) {
    rig.step_and_count();
  }
  const SequenceId other = rig.submit_for(1, 20, 1);
  int64_t n_before = 0;
  while (rig.executor.sequences().at(other).n_known() == 20) {
    n_before += rig.step_and_count().n_tokens;
    ASSERT_LT(n_before, 32 + 4 * 32);
  }
  EXPECT_GT(rig.scheduler.n_running(), 0);
}

TEST(SchedulerFairness, whose_client_has_had_most_is_preempted_first) {
  SchedulerLimits limits = fair_limits(12);
  FairRig rig(limits);
  rig.submit_for(0, 24, 1, -1'000);
  while (!rig.scheduler.is_idle()) {
    rig.step_and_count();
  }
  rig.submit_for(1, 4, 40);
  rig.step_and_count();
  const SequenceId heavy = rig.submit_for(0, 20, 28, -1'000);
  StepPlan plan;
  for (int i = 0; i < 60 && plan.preempted.empty(); ++i) {
    plan = rig.step_and_count();
  }
  EXPECT_THAT(plan.preempted, ElementsAre(heavy));
}

TEST(SchedulerFairness, without_a_quantum_clients_are_not_told_apart) {
  std::vector<SequenceId> admitted[2];
  for (const bool has_clients : {false, true}) {
    FairRig rig(small_limits(20));
    for (int64_t i = 0; i < 40; ++i) {
      rig.submit_for(has_clients ? -i % 3 : 0, 5 + i % 9, 1 + i % 4, i % 2);
    }
    while (!rig.scheduler.is_idle()) {
      const StepPlan plan = rig.step_and_count();
      auto& all = admitted[has_clients ? 1 : 0];
      all.insert(all.end(), plan.admitted.begin(), plan.admitted.end());
    }
    EXPECT_EQ(rig.scheduler.n_served(0), 0);
  }
  EXPECT_EQ(admitted[0], admitted[1]);
}

}  // namespace
}  // namespace millrace

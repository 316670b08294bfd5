#pragma once
// Random submits, cancels, deadlines, failures, loads and steps against the scheduler, for the fast
// and the slow test.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/fake_executor.h"
#include "engine/scheduler.h"

namespace millrace {

struct FuzzTotals {
  int64_t n_finished = 0;
  int64_t n_cancelled = 0;
  int64_t n_overdue_waiting = 0;
  int64_t n_overdue_running = 0;
  int64_t n_failed = 0;
  int64_t n_preemptions = 0;
  int64_t n_cached_tokens = 0;
  int64_t n_prompt_tokens = 0;
  int64_t n_merged_blocks = 0;
  int64_t n_copies = 0;
  int64_t n_overtakings = 0;
  int64_t n_drafts = 0;
  int64_t n_accepted = 0;
  int64_t n_loads = 0;
  int64_t n_late_loads = 0;
  int64_t n_loaded_blocks = 0;

  FuzzTotals& operator+=(const FuzzTotals& other) {
    n_finished += other.n_finished;
    n_cancelled += other.n_cancelled;
    n_overdue_waiting += other.n_overdue_waiting;
    n_overdue_running += other.n_overdue_running;
    n_failed += other.n_failed;
    n_preemptions += other.n_preemptions;
    n_cached_tokens += other.n_cached_tokens;
    n_prompt_tokens += other.n_prompt_tokens;
    n_merged_blocks += other.n_merged_blocks;
    n_copies += other.n_copies;
    n_overtakings += other.n_overtakings;
    n_drafts += other.n_drafts;
    n_accepted += other.n_accepted;
    n_loads += other.n_loads;
    n_late_loads += other.n_late_loads;
    n_loaded_blocks += other.n_loaded_blocks;
    return *this;
  }
};

class SchedulerFuzz {
 public:
  SchedulerFuzz(const SchedulerLimits& limits,
                uint32_t seed,
                bool has_drafts = true,
                bool limits_step_time = true,
                bool has_tier = true)
      : limits_(limits),
        random_(seed),
        scheduler_(limits),
        executor_(limits),
        has_drafts_(has_drafts),
        limits_step_time_(limits_step_time) {
    if (has_tier) {
      scheduler_.load_from([this](SequenceId, int64_t) { return below(6); });
    }
  }

  void step(int max_waiting) {
    while (scheduler_.n_waiting() < max_waiting && random_() % 3 == 0) {
      submit();
    }
    if (random_() % 20 == 0) {
      cancel();
    }
    end_overdue();
    receive();
    max_prompt_tokens_ = limits_step_time_ && random_() % 2 == 0 ? below(3 * limits_.prefill_chunk)
                                                                 : Scheduler::kNoLimit;
    StepPlan plan = scheduler_.plan(max_prompt_tokens_);
    add_drafts(plan);
    ASSERT_TRUE(scheduler_.check());
    check_plan(plan);
    start_loads(plan);
    std::vector<SpanResult> results = executor_.run(plan);
    for (SpanResult& result : results) {  // a row with NaN ends its sequence alone
      if (random_() % 200 == 0 && !result.is_finished) {
        result = {.n_appended = 0, .is_finished = true, .is_failed = true};
        ++totals_.n_failed;
      }
    }
    std::vector<SequenceId> finished;
    for (size_t i = 0; i < results.size(); ++i) {
      const SpanPlan& span = plan.spans[i];
      if (results[i].is_finished) {
        finished.push_back(span.sequence);
      }
      totals_.n_drafts += span.n_drafts;
      totals_.n_accepted +=
          span.n_drafts > 0 && !results[i].is_failed ? results[i].n_appended - 1 : 0;
    }
    totals_.n_copies += std::ssize(plan.copies);
    totals_.n_overtakings += std::ssize(plan.overtaken);
    scheduler_.apply(std::move(plan), results);
    check_whole_blocks();
    for (const SequenceId id : finished) {
      executor_.forget(id);
      ++totals_.n_finished;
    }
    ASSERT_TRUE(scheduler_.check());
    ASSERT_EQ(scheduler_.n_running() + scheduler_.n_waiting(),
              static_cast<int64_t>(executor_.sequences().size()));
  }

  // Everything that is there ends, within the steps that recomputing twice can take.
  void finish() {
    int64_t bound = 10;
    for (const auto& [id, sequence] : executor_.sequences()) {
      const int64_t n_all = sequence.n_prompt + sequence.max_new;
      bound += 3 * (n_all / limits_.block_tokens + 2 + sequence.max_new);
    }
    bound = 2 * bound + 20;  // a load takes a few steps
    while (!scheduler_.is_idle() || scheduler_.is_loading()) {
      ASSERT_GT(bound--, 0) << "no end in sight";
      step(0);
    }
    ASSERT_EQ(scheduler_.pool().n_used(), 0);
    const SchedulerCounters& counters = scheduler_.counters();
    totals_.n_preemptions = counters.n_preemptions;
    totals_.n_cached_tokens = counters.n_cached_tokens;
    totals_.n_prompt_tokens = counters.n_prompt_tokens;
    totals_.n_merged_blocks = counters.n_merged_blocks;
    totals_.n_loaded_blocks = counters.n_loaded_blocks;
  }

  const FuzzTotals& totals() const { return totals_; }

 private:
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(n, 1)));
  }

  void submit() {
    const int64_t capacity = limits_.n_blocks * limits_.block_tokens;
    const int64_t n_prompt = 1 + below(random_() % 4 == 0 ? capacity + 20 : capacity / 4);
    const int64_t max_new = below(random_() % 4 == 0 ? capacity : capacity / 8);
    if (!scheduler_.check_fit(n_prompt, max_new)) {
      EXPECT_GT(n_prompt + max_new - 1, capacity - 1);
      return;
    }
    const std::string space = random_() % 5 == 0 ? "other" : "";
    const auto* tokens = executor_.add(next_id_,
                                       {.n_prompt = n_prompt,
                                        .n_new = below(max_new * 2),
                                        .max_new = max_new,
                                        .space = space,
                                        .tokens = some_prompt(n_prompt)});
    if (random_() % 6 == 0) {
      deadlines_[next_id_] = n_steps_ + below(60);
    }
    scheduler_.submit({.id = next_id_++,
                       .priority = random_() % 5 == 0 ? 1 - below(3) : 0,
                       .client = below(3),
                       .n_prompt = n_prompt,
                       .max_new = max_new,
                       .wants_prompt_logits = random_() % 10 == 0,
                       .cache_namespace = space,
                       .tokens = tokens});
  }

  // Often begins like another one; few different tokens, so that beginnings are often shared.
  std::vector<TokenId> some_prompt(int64_t n) {
    std::vector<TokenId> tokens;
    if (!last_.empty() && random_() % 4 != 0) {
      const std::vector<TokenId>& other = last_[random_() % last_.size()];
      const int64_t n_shared = std::min<int64_t>(n, below(std::ssize(other) + 1));
      tokens.assign(other.begin(), other.begin() + n_shared);
    }
    while (std::ssize(tokens) < n) {
      tokens.push_back(static_cast<TokenId>(random_() % 2));
    }
    last_.resize(std::min<size_t>(last_.size() + 1, 10));
    last_[random_() % last_.size()] = tokens;
    return tokens;
  }

  void add_drafts(StepPlan& plan) {
    if (!has_drafts_) {
      return;
    }
    n_drafts_.clear();
    while (n_drafts_.size() < plan.spans.size()) {
      n_drafts_.push_back(below(6));
    }
    scheduler_.add_drafts(plan, n_drafts_);
    for (size_t i = 0; i < plan.spans.size(); ++i) {
      ASSERT_LE(plan.spans[i].n_drafts, n_drafts_[i]);
    }
  }

  void cancel() {
    auto& sequences = executor_.sequences();
    if (sequences.empty()) {
      return;
    }
    const auto victim = std::next(sequences.begin(), below(static_cast<int64_t>(sequences.size())));
    scheduler_.remove(victim->first);
    sequences.erase(victim);
    ++totals_.n_cancelled;
  }

  // Those whose deadline has come end where they are; the others and the blocks are checked after
  // every step.
  void end_overdue() {
    ++n_steps_;
    auto& sequences = executor_.sequences();
    for (const auto& [id, deadline] : deadlines_) {
      if (deadline < n_steps_ && sequences.contains(id)) {
        const int64_t n_waiting = scheduler_.n_waiting();
        scheduler_.remove(id);
        sequences.erase(id);
        ++(scheduler_.n_waiting() < n_waiting ? totals_.n_overdue_waiting
                                              : totals_.n_overdue_running);
      }
    }
    std::erase_if(deadlines_, [&](const auto& entry) { return entry.second < n_steps_; });
  }

  // The tier writes from now on, and others must not read there.
  void start_loads(const StepPlan& plan) {
    for (const LoadPlan& load : plan.loads) {
      const std::span<const BlockId> blocks = plan.blocks_to_load(load);
      ASSERT_GE(std::ssize(blocks), limits_.min_load_blocks);
      loads_.push_back({load.sequence, load.n_held, {blocks.begin(), blocks.end()}, false});
      ++totals_.n_loads;
      for (const BlockId block : blocks) {
        executor_.spoil(block);
      }
    }
  }

  // Some loads end, with all of their blocks or fewer, and some are late.
  void receive() {
    for (auto load = loads_.begin(); load != loads_.end();) {
      if (!load->is_late && random_() % 8 == 0) {
        load->is_late = true;
        ++totals_.n_late_loads;
        scheduler_.give_up_load(load->sequence);
      }
      if (random_() % 3 != 0) {
        ++load;
        continue;
      }
      const auto n_all = std::ssize(load->blocks);
      const bool is_there = executor_.sequences().contains(load->sequence);
      const int64_t n_arrived = random_() % 4 == 0 ? below(n_all) : n_all;
      for (int64_t i = 0; is_there && i < n_arrived; ++i) {
        executor_.fill(load->blocks[static_cast<size_t>(i)], load->sequence, load->first + i);
      }
      ASSERT_LE(scheduler_.finish_load(load->sequence, n_arrived), is_there ? n_arrived : 0);
      load = loads_.erase(load);
    }
  }

  // What would be offered to a tier holds what it claims.
  void check_whole_blocks() {
    for (const WholeBlock& whole : scheduler_.whole_blocks()) {
      ASSERT_TRUE(executor_.holds(whole.block, whole.sequence, whole.index));
    }
  }

  void check_plan(const StepPlan& plan) {
    ASSERT_LE(plan.n_tokens, limits_.max_batch_tokens);
    ASSERT_LE(plan.n_logits, limits_.max_logits);
    ASSERT_TRUE(plan.preempted.empty() || plan.admitted.empty());
    ASSERT_TRUE(!plan.is_empty() || scheduler_.is_idle() || scheduler_.is_loading())
        << "a step without progress";
    for (const LoadPlan& load : plan.loads) {
      ASSERT_TRUE(std::ranges::find(plan.admitted, load.sequence) == plan.admitted.end());
    }
    int64_t n_prompt = 0;
    for (const SpanPlan& span : plan.spans) {
      const int64_t end = span.begin + span.count - span.n_drafts;
      const auto& sequence = executor_.sequences().at(span.sequence);
      n_prompt += span.begin + 1 < sequence.n_known() ? span.count - span.n_drafts : 0;
      // The edge is the request's own: its end, or a multiple of the chunk or of a block.
      ASSERT_TRUE(end == sequence.n_known() || end % limits_.block_tokens == 0 ||
                  max_prompt_tokens_ < Scheduler::kNoLimit || limits_.fills_steps);
      ASSERT_TRUE(end == sequence.n_known() || span.n_logits == span.count ||
                  max_prompt_tokens_ < Scheduler::kNoLimit || limits_.fills_steps ||
                  end % limits_.prefill_chunk == 0);
    }
    ASSERT_LE(n_prompt, std::max<int64_t>(max_prompt_tokens_, 1));
    for (const auto& [id, sequence] : executor_.sequences()) {
      ASSERT_LE(sequence.n_started, 3) << "sequence " << id << " starts over and over";
    }
  }

  struct Load {
    SequenceId sequence = 0;
    int64_t first = 0;
    std::vector<BlockId> blocks;
    bool is_late = false;
  };

  SchedulerLimits limits_;
  std::mt19937 random_;
  Scheduler scheduler_;
  FakeExecutor executor_;
  SequenceId next_id_ = 0;
  int64_t n_steps_ = 0;
  std::map<SequenceId, int64_t> deadlines_;  // the last step, of those that have one
  const bool has_drafts_;
  const bool limits_step_time_;
  int64_t max_prompt_tokens_ = Scheduler::kNoLimit;  // of this step
  std::vector<int64_t> n_drafts_;                    // offered for each span
  std::vector<std::vector<TokenId>> last_;           // prompts
  std::vector<Load> loads_;                          // under way
  FuzzTotals totals_;
};

}  // namespace millrace

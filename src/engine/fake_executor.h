#pragma once
// Runs scheduler plans without a model, for tests. It remembers what every block holds and checks
// that a span reads exactly the tokens of its own sequence.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "engine/scheduler.h"

namespace millrace {

class FakeExecutor {
 public:
  struct Sequence {
    int64_t n_prompt = 0;
    int64_t n_new = 0;  // tokens it will write before it ends by itself
    int64_t max_new = 0;
    int64_t n_known = 0;
    int64_t n_started = 0;  // admissions
  };

  explicit FakeExecutor(const SchedulerLimits& limits)
      : block_tokens_(limits.block_tokens),
        slots_(static_cast<size_t>(limits.n_blocks * limits.block_tokens)) {}

  void add(SequenceId id, const Sequence& sequence) {
    sequences_[id] = sequence;
    sequences_[id].n_known = sequence.n_prompt;
  }
  void forget(SequenceId id) { sequences_.erase(id); }
  std::map<SequenceId, Sequence>& sequences() { return sequences_; }

  // Reads and writes the blocks as a model would.
  std::vector<SpanResult> run(const StepPlan& plan) {
    std::vector<SpanResult> results;
    for (const SequenceId id : plan.admitted) {
      ++sequences_.at(id).n_started;
    }
    for (const SpanPlan& span : plan.spans) {
      read(plan, span);
      write(plan, span);
      results.push_back(answer(span));
    }
    return results;
  }

 private:
  struct Slot {
    SequenceId sequence = Scheduler::kNoSequence;
    int64_t position = -1;
  };

  Slot& slot(const StepPlan& plan, const SpanPlan& span, int64_t position) {
    EXPECT_LT(position / block_tokens_, span.n_blocks);
    const BlockId block =
        plan.blocks[static_cast<size_t>(span.first_block + position / block_tokens_)];
    return slots_[static_cast<size_t>(block * block_tokens_ + position % block_tokens_)];
  }

  void read(const StepPlan& plan, const SpanPlan& span) {
    for (int64_t position = 0; position < span.begin; ++position) {
      const Slot& held = slot(plan, span, position);
      ASSERT_EQ(held.sequence, span.sequence) << "position " << position;
      ASSERT_EQ(held.position, position);
    }
  }

  void write(const StepPlan& plan, const SpanPlan& span) {
    ASSERT_GT(span.count, 0);
    ASSERT_LE(span.begin + span.count, sequences_.at(span.sequence).n_known);
    for (int64_t position = span.begin; position < span.begin + span.count; ++position) {
      slot(plan, span, position) = {span.sequence, position};
    }
  }

  SpanResult answer(const SpanPlan& span) {
    Sequence& sequence = sequences_.at(span.sequence);
    const bool is_complete = span.begin + span.count == sequence.n_known;
    EXPECT_EQ(span.is_sampling, is_complete && sequence.max_new > 0);
    if (!is_complete) {
      return {};
    }
    sequence.n_known += span.is_sampling ? 1 : 0;
    const int64_t n_written = sequence.n_known - sequence.n_prompt;
    return {.n_appended = span.is_sampling ? 1 : 0,
            .is_finished = n_written >= std::min(sequence.n_new, sequence.max_new)};
  }

  int64_t block_tokens_;
  std::vector<Slot> slots_;  // [n_blocks, block_tokens]
  std::map<SequenceId, Sequence> sequences_;
};

}  // namespace millrace

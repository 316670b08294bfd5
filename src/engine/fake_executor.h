#pragma once
// Runs scheduler plans without a model, for tests. It remembers what every block holds and checks
// that a span reads exactly what its own tokens would have given.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/philox.h"
#include "engine/scheduler.h"

namespace millrace {

class FakeExecutor {
 public:
  struct Sequence {
    int64_t n_prompt = 0;
    int64_t n_new = 0;  // tokens it will write before it ends by itself
    int64_t max_new = 0;
    std::string space = {};
    std::vector<TokenId> tokens = {};   // none: some that no other sequence has
    int64_t n_started = 0;              // admissions
    int64_t n_cached = 0;               // tokens found by the first
    std::vector<uint64_t> states = {};  // of each token: stands for its KV, depends on all before

    int64_t n_known() const { return static_cast<int64_t>(tokens.size()); }
  };

  explicit FakeExecutor(const SchedulerLimits& limits)
      : block_tokens_(limits.block_tokens),
        slots_(static_cast<size_t>(limits.n_blocks * limits.block_tokens)) {}

  // The tokens, for SequenceSpec.
  const std::vector<TokenId>* add(SequenceId id, const Sequence& added) {
    Sequence& sequence = sequences_[id];
    sequence = added;
    while (sequence.n_known() < sequence.n_prompt) {
      const auto own = static_cast<TokenId>(1'000'000 + id);
      push(sequence, sequence.tokens.empty() ? own : static_cast<TokenId>(sequence.n_known()));
    }
    update_states(sequence);
    return &sequence.tokens;
  }
  void forget(SequenceId id) { sequences_.erase(id); }
  std::map<SequenceId, Sequence>& sequences() { return sequences_; }

  // As a tier would: block number `index` of the sequence into that memory, or rubbish.
  void fill(BlockId block, SequenceId id, int64_t index) {
    const Sequence& sequence = sequences_.at(id);
    for (int64_t i = 0; i < block_tokens_; ++i) {
      slots_[static_cast<size_t>(block * block_tokens_ + i)] =
          sequence.states.at(static_cast<size_t>(index * block_tokens_ + i));
    }
  }
  void spoil(BlockId block) {
    for (int64_t i = 0; i < block_tokens_; ++i) {
      slots_[static_cast<size_t>(block * block_tokens_ + i)] = 13;
    }
  }

  // Does the memory hold that block of the sequence?
  bool holds(BlockId block, SequenceId id, int64_t index) const {
    const Sequence& sequence = sequences_.at(id);
    for (int64_t i = 0; i < block_tokens_; ++i) {
      if (slots_[static_cast<size_t>(block * block_tokens_ + i)] !=
          sequence.states.at(static_cast<size_t>(index * block_tokens_ + i))) {
        return false;
      }
    }
    return true;
  }

  // Reads and writes the blocks as a model would.
  std::vector<SpanResult> run(const StepPlan& plan) {
    std::vector<SpanResult> results;
    for (const SequenceId id : plan.admitted) {
      ++sequences_.at(id).n_started;
    }
    for (const BlockCopy& copy : plan.copies) {
      for (int64_t i = 0; i < block_tokens_; ++i) {
        slots_[static_cast<size_t>(copy.to * block_tokens_ + i)] =
            slots_[static_cast<size_t>(copy.from * block_tokens_ + i)];
      }
    }
    for (const SpanPlan& span : plan.spans) {
      read(plan, span);
      results.push_back(span.n_drafts > 0 ? verify(plan, span) : compute(plan, span));
    }
    return results;
  }

 private:
  uint64_t& slot(const StepPlan& plan, const SpanPlan& span, int64_t position) {
    EXPECT_LT(position / block_tokens_, span.n_blocks);
    const BlockId block =
        plan.blocks[static_cast<size_t>(span.first_block + position / block_tokens_)];
    return slots_[static_cast<size_t>(block * block_tokens_ + position % block_tokens_)];
  }

  void read(const StepPlan& plan, const SpanPlan& span) {
    const Sequence& sequence = sequences_.at(span.sequence);
    for (int64_t position = 0; position < span.begin; ++position) {
      ASSERT_EQ(slot(plan, span, position), sequence.states[static_cast<size_t>(position)])
          << "position " << position << " of sequence " << span.sequence;
    }
  }

  SpanResult compute(const StepPlan& plan, const SpanPlan& span) {
    const Sequence& sequence = sequences_.at(span.sequence);
    EXPECT_GT(span.count, 0);
    EXPECT_LE(span.begin + span.count, sequence.n_known());
    for (int64_t position = span.begin; position < span.begin + span.count; ++position) {
      slot(plan, span, position) = sequence.states[static_cast<size_t>(position)];
    }
    return answer(span);
  }

  // Every second draft is right, and the KV of the wrong ones is rubbish.
  SpanResult verify(const StepPlan& plan, const SpanPlan& span) {
    Sequence& sequence = sequences_.at(span.sequence);
    EXPECT_EQ(span.begin + span.count - span.n_drafts, sequence.n_known());
    EXPECT_EQ(span.n_logits, span.n_drafts + 1);
    SpanResult result;
    bool is_right = true;
    for (int64_t i = 0; i <= span.n_drafts; ++i) {
      const auto rubbish = static_cast<uint64_t>(i);
      slot(plan, span, span.begin + i) = is_right ? sequence.states.back() : rubbish;
      if (is_right) {
        push(sequence, static_cast<TokenId>(sequence.states.back() % 2));
        ++result.n_appended;
        result.is_finished = is_over(sequence);
        is_right = !result.is_finished && sequence.states.back() % 2 == 0;
      }
    }
    return result;
  }

  static bool is_over(const Sequence& sequence) {
    const int64_t n_written = sequence.n_known() - sequence.n_prompt;
    return n_written >= std::min(sequence.n_new, sequence.max_new);
  }

  SpanResult answer(const SpanPlan& span) {
    Sequence& sequence = sequences_.at(span.sequence);
    const bool is_complete = span.begin + span.count == sequence.n_known();
    EXPECT_EQ(span.is_sampling, is_complete && sequence.max_new > 0);
    if (!is_complete) {
      return {};
    }
    if (span.is_sampling) {  // what follows depends on what was before
      push(sequence, static_cast<TokenId>(sequence.states.back() % 2));
    }
    return {.n_appended = span.is_sampling ? 1 : 0, .is_finished = is_over(sequence)};
  }

  static void push(Sequence& sequence, TokenId token) {
    sequence.tokens.push_back(token);
    update_states(sequence);
  }

  static void update_states(Sequence& sequence) {
    while (sequence.states.size() < sequence.tokens.size()) {
      const uint64_t before = sequence.states.empty() ? std::hash<std::string>{}(sequence.space)
                                                      : sequence.states.back();
      const auto token = static_cast<uint64_t>(sequence.tokens[sequence.states.size()]);
      const PhiloxBlock bits = philox4x32(before, {static_cast<uint32_t>(token), 0, 0, 0});
      sequence.states.push_back(uint64_t{bits[0]} << 32 | bits[1]);
    }
  }

  int64_t block_tokens_;
  std::vector<uint64_t> slots_;  // [n_blocks, block_tokens]
  std::map<SequenceId, Sequence> sequences_;
};

}  // namespace millrace

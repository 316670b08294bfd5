// Which waiting sequences start, and from where: the part of the scheduler that knows the cache.
#include <algorithm>

#include "engine/scheduler.h"

namespace millrace {
namespace {

// A sequence waits for another one that is computing tokens of its own when that saves at least
// this part of a block. For less it is sooner done alone.
constexpr int64_t kWorthWaiting = 4;

// How many that cannot start are looked past for one that can.
constexpr int64_t kMaxPassed = 16;

}  // namespace

// What of a waiting sequence's tokens the cache holds; hits_ gets the whole blocks.
PrefixMatch Scheduler::find_cached(const Entry& entry) {
  hits_.clear();
  if (!limits_.has_prefix_cache || entry.wants_prompt_logits) {
    return {};
  }
  return index_.match(
      entry.space, entry.keys, tokens_of(entry, 0, entry.n_known - 1), picker_, hits_);
}

// Would the waiting sequence find enough more in the cache once the other one has computed its own
// tokens? hits_ are the blocks it finds now. Looks one block ahead.
bool Scheduler::is_worth_waiting(const Entry& other,
                                 int64_t n_computed,
                                 const Entry& entry,
                                 int64_t n_cached) {
  const size_t n_whole = hits_.size();
  if (other.space != entry.space || !may_wait_for(other, entry) ||
      (n_whole > 0 &&
       (other.keys.size() < n_whole || other.keys[n_whole - 1] != entry.keys[n_whole - 1]))) {
    return false;
  }
  const int64_t begin = static_cast<int64_t>(n_whole) * limits_.block_tokens;
  const auto next_of = [&](const Entry& some, int64_t n) {
    return tokens_of(some, std::min(begin, n), std::min(begin + limits_.block_tokens, n));
  };
  const auto mine = next_of(entry, entry.n_known - 1);
  const int64_t n_shared =
      std::ranges::mismatch(mine, next_of(other, other.n_known)).in1 - mine.begin();
  const int64_t end = begin + n_shared;
  return n_computed < end && end - n_cached >= limits_.block_tokens / kWorthWaiting;
}

bool Scheduler::is_being_computed(const Entry& entry, int64_t n_cached) {
  if (!limits_.has_prefix_cache || entry.wants_prompt_logits) {
    return false;
  }
  return std::ranges::any_of(prefills_, [&](const Prefill& other) {
    return is_worth_waiting(*other.entry, other.begin, entry, n_cached);
  });
}

// Blocks for another sequence: one for each that runs is left to it, and hits_ are kept.
int64_t Scheduler::n_free_beside(const StepPlan& plan) const {
  int64_t n_free = picker_.n_free() - n_running() - std::ssize(plan.admitted);
  for (const BlockId hit : hits_) {
    n_free -= picker_.n_free_lost_by_keeping(hit);
  }
  return n_free;
}

// hits_ and cached are what the cache holds of it.
bool Scheduler::try_admit(StepPlan& plan, const Entry& entry, PrefixMatch cached) {
  const int64_t n_new = n_admission_blocks(entry) - static_cast<int64_t>(hits_.size());
  const int64_t n_free = n_free_beside(plan);
  if (cached.source != kNoBlock && n_new + picker_.n_free_lost_by_keeping(cached.source) > n_free) {
    cached = {.n_tokens = static_cast<int64_t>(hits_.size()) * limits_.block_tokens};
  }
  if (n_new > n_free || !add_span(plan, entry, cached.n_tokens)) {
    return false;
  }
  plan.admitted.push_back(entry.id);
  prefills_.push_back({&entry, cached.n_tokens});
  for (const BlockId hit : hits_) {
    picker_.keep(hit);
  }
  if (cached.source != kNoBlock) {
    picker_.keep(cached.source);
  }
  SpanPlan& span = plan.spans.back();
  assign_blocks(plan, span, hits_, n_new);
  if (cached.source != kNoBlock) {
    const size_t first_new = static_cast<size_t>(span.first_block) + hits_.size();
    plan.copies.push_back({.from = cached.source, .to = plan.blocks[first_new]});
  }
  return true;
}

void Scheduler::admit(StepPlan& plan) {
  passed_.clear();
  n_overtakings_ = limits_.max_overtakings;
  n_seen_ = 0;
  const auto consider_all = [&](const auto& entries) {
    for (const Entry* entry : entries) {
      if (!consider(plan, *entry)) {
        return;
      }
    }
  };
  if (is_fair()) {
    order_waiting();
    consider_all(order_);
  } else {
    consider_all(waiting_);
  }
}

// The next of those that wait. False: nobody behind it can start either.
bool Scheduler::consider(StepPlan& plan, const Entry& entry) {
  if (n_running() + std::ssize(plan.admitted) >= limits_.max_sequences ||
      plan.n_tokens >= limits_.max_batch_tokens || n_seen_++ >= limits_.max_sequences ||
      std::ssize(passed_) >= kMaxPassed || (!passed_.empty() && n_overtakings_ <= 0)) {
    return false;
  }
  const auto is_above = [&](const Entry* passed) {
    return passed->client == entry.client && passed->priority != entry.priority;
  };
  if (entry.is_loading || std::ranges::any_of(passed_, is_above)) {
    return true;
  }
  const PrefixMatch cached = find_cached(entry);
  const bool can_gain = is_being_computed(entry, cached.n_tokens) || is_being_loaded(plan, entry);
  if (passed_.empty() && (can_gain || try_load(plan, entry))) {
    return true;
  }
  const bool may_start =
      !can_gain && (passed_.empty() || limits_.fills_steps || cached.n_tokens * 2 >= entry.n_known);
  if (!may_start || !try_admit(plan, entry, cached)) {
    passed_.push_back(&entry);
    n_overtakings_ = std::min(n_overtakings_, limits_.max_overtakings - entry.n_overtaken);
  } else if (!passed_.empty()) {
    --n_overtakings_;
    for (const Entry* passed : passed_) {
      plan.overtaken.push_back(passed->id);
    }
  }
  return true;
}

}  // namespace millrace

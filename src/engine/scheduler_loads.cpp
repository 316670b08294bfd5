// Blocks that come from a tier: the part of the scheduler that fills free blocks for those that
// wait.
#include <algorithm>

#include "base/check.h"
#include "engine/scheduler.h"

namespace millrace {

// Sequences that wait for their loads.
int64_t Scheduler::n_loading() const {
  return std::ranges::count_if(loads_, [&](const auto& load) {
    const auto found = entries_.find(load.first);
    return found != entries_.end() && found->second.is_loading;
  });
}

// Is the block behind hits_ on its way for somebody else?
bool Scheduler::is_being_loaded(const StepPlan& plan, const Entry& entry) const {
  const auto next = std::ssize(hits_);
  if (!n_stored_ || entry.wants_prompt_logits || std::ssize(entry.keys) <= next) {
    return false;
  }
  const auto has_next = [&](SequenceId id, int64_t first, int64_t n_blocks) {
    const Entry& other = entries_.at(id);
    return other.space == entry.space && first <= next && next < first + n_blocks &&
           other.keys[static_cast<size_t>(next)] == entry.keys[static_cast<size_t>(next)];
  };
  for (const auto& [id, load] : loads_) {
    const auto found = entries_.find(id);
    if (found != entries_.end() && found->second.is_loading &&
        has_next(id, load.first, std::ssize(load.blocks))) {
      return true;
    }
  }
  return std::ranges::any_of(plan.loads, [&](const LoadPlan& load) {
    return has_next(load.sequence, load.n_held, load.n_new);
  });
}

// Plans to load what is behind hits_, if that is worth it and the sequence could start with it.
bool Scheduler::try_load(StepPlan& plan, const Entry& entry) {
  if (!n_stored_ || entry.has_loaded || entry.wants_prompt_logits || loads_.contains(entry.id)) {
    return false;
  }
  const auto n_held = std::ssize(hits_);
  const int64_t n_new = std::min(n_stored_(entry.id, n_held), std::ssize(entry.keys) - n_held);
  if (n_new < limits_.min_load_blocks || n_admission_blocks(entry) - n_held > n_free_beside(plan)) {
    return false;
  }
  for (const BlockId hit : hits_) {
    picker_.keep(hit);
  }
  plan.loads.push_back({.sequence = entry.id,
                        .first_block = std::ssize(plan.blocks),
                        .n_held = n_held,
                        .n_new = n_new});
  plan.blocks.insert(plan.blocks.end(), hits_.begin(), hits_.end());
  picker_.pick(n_new, plan.blocks);
  return true;
}

void Scheduler::apply_load(const StepPlan& plan, const LoadPlan& load) {
  const std::span<const BlockId> fresh = plan.blocks_to_load(load);
  const auto held =
      std::span(plan.blocks)
          .subspan(static_cast<size_t>(load.first_block), static_cast<size_t>(load.n_held));
  pool_.touch(held);  // used just now: given away later
  pool_.release(held);
  for (const BlockId block : fresh) {
    index_.forget(block);
  }
  pool_.take(fresh);
  for (const BlockId block : fresh) {
    pool_.begin_transfer(block);
  }
  pool_.release(fresh);
  Entry& entry = entries_.at(load.sequence);
  entry.is_loading = true;
  entry.has_loaded = true;
  loads_[load.sequence] = {.first = load.n_held, .blocks = {fresh.begin(), fresh.end()}};
}

// What comes before may have been given away meanwhile; then nothing can be built on it.
int64_t Scheduler::publish_loaded(const Entry& entry, const Load& load, int64_t n_blocks) {
  picker_.reset();
  hits_.clear();
  const int64_t n_known = (load.first + n_blocks) * limits_.block_tokens;
  const auto keys = std::span(entry.keys).first(static_cast<size_t>(load.first + n_blocks));
  index_.match(entry.space, keys, tokens_of(entry, 0, n_known), picker_, hits_);
  if (std::ssize(hits_) < load.first) {
    return 0;
  }
  BlockId parent = load.first == 0 ? kNoBlock : hits_[static_cast<size_t>(load.first) - 1];
  for (int64_t i = 0; i < n_blocks; ++i) {
    const int64_t begin = (load.first + i) * limits_.block_tokens;
    parent = index_.publish(entry.space,
                            parent,
                            entry.keys[static_cast<size_t>(load.first + i)],
                            tokens_of(entry, begin, begin + limits_.block_tokens),
                            load.blocks[static_cast<size_t>(i)]);
  }
  return n_blocks;
}

int64_t Scheduler::finish_load(SequenceId id, int64_t n_blocks) {
  const auto found = loads_.find(id);
  MR_CHECK(found != loads_.end() && n_blocks <= std::ssize(found->second.blocks),
           "load of sequence {}, {} blocks",
           id,
           n_blocks);
  const Load load = std::move(found->second);
  loads_.erase(found);
  int64_t n_found = 0;
  if (const auto entry = entries_.find(id); entry != entries_.end()) {
    entry->second.is_loading = false;
    n_found = publish_loaded(entry->second, load, n_blocks);
  }
  for (size_t i = load.blocks.size(); i-- > 0;) {  // the last is given away first
    pool_.end_transfer(load.blocks[i]);
  }
  counters_.n_loaded_blocks += n_found;
  return n_found;
}

void Scheduler::give_up_load(SequenceId id) {
  if (const auto found = entries_.find(id); found != entries_.end()) {
    found->second.is_loading = false;
  }
}

}  // namespace millrace

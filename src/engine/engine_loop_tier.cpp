// The tier in the step loop: what it brings before a plan, and what it is offered after a step.
#include <algorithm>

#include "engine/engine_loop.h"

namespace millrace {

void EngineLoop::receive_loads() {
  if (traffic_ == nullptr) {
    return;
  }
  for (const LoadNews& news : traffic_->poll(now_)) {
    if (!news.is_over) {
      scheduler_.give_up_load(news.sequence);
      continue;
    }
    const int64_t n_found = scheduler_.finish_load(news.sequence, news.n_blocks);
    if (const auto found = sequences_.find(news.sequence); found != sequences_.end()) {
      SequenceState& sequence = *found->second;
      sequence.loaded_end = sequence.loaded_begin + n_found * scheduler_.limits().block_tokens;
    }
  }
}

// Before the step computes, so that both go on at the same time.
void EngineLoop::start_loads(const StepPlan& plan) {
  for (const LoadPlan& load : plan.loads) {
    SequenceState& sequence = *sequences_.at(load.sequence);
    note_started(sequence);  // it waits for its own sake, not for its turn
    sequence.loaded_begin = sequence.loaded_end = load.n_held * scheduler_.limits().block_tokens;
    traffic_->load(sequence, load.n_held, plan.blocks_to_load(load), now_);
  }
}

// From the scheduler; what is being loaded for it need not arrive.
void EngineLoop::remove(SequenceId id) {
  scheduler_.remove(id);
  if (traffic_ != nullptr) {
    traffic_->cancel(id);
  }
}

void EngineLoop::offer_blocks() {
  if (traffic_ == nullptr) {
    return;
  }
  for (const WholeBlock& whole : scheduler_.whole_blocks()) {
    traffic_->offer(*sequences_.at(whole.sequence), whole.index, whole.block);
  }
  counters_.refused_offers.store(traffic_->n_refused(), std::memory_order_relaxed);
}

// The cached part of a prompt, by where it came from.
void EngineLoop::note_cached(SequenceState& sequence) {
  const int64_t n_loaded = std::max<int64_t>(
      std::min(sequence.n_cached, sequence.loaded_end) - sequence.loaded_begin, 0);
  const int64_t n_held = sequence.n_cached - n_loaded;
  if (n_held > 0) {
    metrics_.cached_tokens.add(static_cast<double>(n_held));
    metrics_.cache_hits.add();
  }
  if (n_loaded > 0) {
    metrics_.loaded_tokens.add(static_cast<double>(n_loaded));
    metrics_.tier_hits.add();
  }
  counters_.cached_tokens.fetch_add(sequence.n_cached, std::memory_order_relaxed);
  counters_.loaded_tokens.fetch_add(n_loaded, std::memory_order_relaxed);
}

}  // namespace millrace

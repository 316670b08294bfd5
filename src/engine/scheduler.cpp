#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

Scheduler::Scheduler(SchedulerLimits limits)
    : limits_(limits), pool_(limits.n_blocks), picker_(pool_) {
  MR_CHECK(is_chunk_size(limits.prefill_chunk, limits.block_tokens),
           "chunk {} block {}",
           limits.prefill_chunk,
           limits.block_tokens);
  MR_CHECK(limits.max_batch_tokens >= limits.prefill_chunk,
           "batch {} chunk {}",
           limits.max_batch_tokens,
           limits.prefill_chunk);
  MR_CHECK(limits.max_logits >= limits.block_tokens, "logits {}", limits.max_logits);
  MR_CHECK(limits.max_sequences >= 1);
}

Result<void> Scheduler::check_fit(int64_t n_prompt, int64_t max_new) const {
  const int64_t n_needed = n_prompt + std::max<int64_t>(max_new - 1, 0);
  const int64_t capacity = limits_.n_blocks * limits_.block_tokens;
  if (n_needed > capacity) {
    return fail(
        ErrorCode::kContextLength,
        "prompt ({} tokens) and answer (up to {}) need {} tokens of KV memory, all there is "
        "holds {}",
        n_prompt,
        max_new,
        n_needed,
        capacity);
  }
  return {};
}

bool Scheduler::comes_before(const Entry& a, const Entry& b) {
  return a.priority != b.priority ? a.priority < b.priority : a.id < b.id;
}

bool Scheduler::is_listed(const std::vector<SequenceId>& ids, SequenceId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

Scheduler::Entry* Scheduler::find(std::vector<Entry>& entries, SequenceId id) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.id == id; });
  return found == entries.end() ? nullptr : &*found;
}

void Scheduler::insert(std::vector<Entry>& entries, Entry entry) {
  const auto place = std::upper_bound(entries.begin(), entries.end(), entry, comes_before);
  entries.insert(place, std::move(entry));
}

void Scheduler::submit(const SequenceSpec& spec) {
  MR_CHECK(spec.n_prompt >= 1 && spec.max_new >= 0);
  MR_CHECK(
      check_fit(spec.n_prompt, spec.max_new).has_value(), "sequence {} can never run", spec.id);
  insert(waiting_,
         {.id = spec.id,
          .priority = spec.priority,
          .n_prompt = spec.n_prompt,
          .n_known = spec.n_prompt,
          .n_limit = spec.n_prompt + spec.max_new,
          .wants_prompt_logits = spec.wants_prompt_logits});
}

void Scheduler::remove(SequenceId id) {
  for (std::vector<Entry>* entries : {&waiting_, &running_}) {
    if (Entry* entry = find(*entries, id)) {
      pool_.release(entry->blocks);
      entries->erase(entries->begin() + (entry - entries->data()));
      return;
    }
  }
}

// Blocks it must be able to take to start running.
int64_t Scheduler::n_admission_blocks(const Entry& entry) const {
  return blocks_for(reserves_maximum(entry) ? n_maximum(entry) : entry.n_known,
                    limits_.block_tokens);
}

// Blocks it lacks to compute its tokens up to end.
int64_t Scheduler::n_missing_blocks(const Entry& entry, int64_t end) const {
  return std::max<int64_t>(
      blocks_for(end, limits_.block_tokens) - static_cast<int64_t>(entry.blocks.size()), 0);
}

// The sequence's next span, if the budget has room for all of it.
bool Scheduler::add_span(StepPlan& plan, const Entry& entry) {
  const int64_t chunk = entry.wants_prompt_logits ? limits_.block_tokens : limits_.prefill_chunk;
  const int64_t edge = (entry.n_computed / chunk + 1) * chunk;
  SpanPlan span{.sequence = entry.id,
                .begin = entry.n_computed,
                .count = std::min(edge, entry.n_known) - entry.n_computed};
  const bool is_complete = span.begin + span.count == entry.n_known;
  span.is_sampling = is_complete && entry.n_known < entry.n_limit;
  span.n_logits = entry.wants_prompt_logits ? span.count : (span.is_sampling ? 1 : 0);
  if (plan.n_tokens + span.count > limits_.max_batch_tokens ||
      plan.n_logits + span.n_logits > limits_.max_logits) {
    return false;
  }
  plan.n_tokens += span.count;
  plan.n_logits += span.n_logits;
  plan.spans.push_back(span);
  return true;
}

// Gives every running sequence that is not preempted its span; returns the blocks they lack.
int64_t Scheduler::grant_running(StepPlan& plan) {
  plan.spans.clear();
  plan.n_tokens = plan.n_logits = 0;
  int64_t n_missing = 0;
  for (const bool is_decode_turn : {true, false}) {
    for (const Entry& entry : running_) {
      const bool is_decode = entry.n_known - entry.n_computed == 1;
      if (is_decode == is_decode_turn && !is_listed(plan.preempted, entry.id) &&
          add_span(plan, entry)) {
        n_missing += n_missing_blocks(entry, plan.spans.back().begin + plan.spans.back().count);
      }
    }
  }
  return n_missing;
}

// Lowest priority, then least to compute again, then the youngest; never one that has its maximum.
const Scheduler::Entry* Scheduler::choose_victim(const StepPlan& plan) const {
  const Entry* victim = nullptr;
  for (const Entry& entry : running_) {
    if (reserves_maximum(entry) || is_listed(plan.preempted, entry.id)) {
      continue;
    }
    const bool is_cheaper = victim == nullptr || entry.priority > victim->priority ||
                            (entry.priority == victim->priority &&
                             (entry.n_computed < victim->n_computed ||
                              (entry.n_computed == victim->n_computed && entry.id > victim->id)));
    victim = is_cheaper ? &entry : victim;
  }
  return victim;
}

// Spans for the running sequences, with victims until the rest has the blocks it needs. Those that
// reserve their maximum lack none, so whoever lacks some can itself be a victim: this ends.
void Scheduler::make_room(StepPlan& plan) {
  while (grant_running(plan) > picker_.n_free()) {
    const Entry* victim = choose_victim(plan);
    MR_CHECK(victim != nullptr, "no sequence to preempt, {} running", running_.size());
    plan.preempted.push_back(victim->id);
    picker_.release(victim->blocks);
  }
}

void Scheduler::assign_blocks(StepPlan& plan, SpanPlan& span, const Entry& entry, int64_t n_new) {
  span.n_new_blocks = n_new;
  span.first_block = static_cast<int64_t>(plan.blocks.size());
  plan.blocks.insert(plan.blocks.end(), entry.blocks.begin(), entry.blocks.end());
  picker_.pick(n_new, plan.blocks);
  span.n_blocks = static_cast<int64_t>(plan.blocks.size()) - span.first_block;
}

void Scheduler::admit(StepPlan& plan) {
  for (const Entry& entry : waiting_) {
    const int64_t n_others = n_running() + static_cast<int64_t>(plan.admitted.size());
    const int64_t n_new = n_admission_blocks(entry);
    if (n_others >= limits_.max_sequences || n_new + n_others > picker_.n_free() ||
        !add_span(plan, entry)) {
      return;
    }
    plan.admitted.push_back(entry.id);
    assign_blocks(plan, plan.spans.back(), entry, n_new);
  }
}

StepPlan Scheduler::plan() {
  StepPlan plan = std::move(spare_);
  plan.preempted.clear();
  plan.admitted.clear();
  plan.blocks.clear();
  picker_.reset();
  make_room(plan);
  for (SpanPlan& span : plan.spans) {
    const Entry& entry = *find(running_, span.sequence);
    assign_blocks(plan, span, entry, n_missing_blocks(entry, span.begin + span.count));
  }
  if (plan.preempted.empty()) {
    admit(plan);
  }
  return plan;
}

void Scheduler::apply_preemption(SequenceId id) {
  Entry* running = find(running_, id);
  MR_CHECK(running != nullptr, "sequence {} does not run", id);
  Entry entry = std::move(*running);
  running_.erase(running_.begin() + (running - running_.data()));
  counters_.n_preemptions += 1;
  counters_.n_recomputed_tokens += entry.n_computed;
  pool_.release(entry.blocks);
  entry.blocks.clear();
  entry.n_computed = 0;
  entry.n_preemptions += 1;
  insert(waiting_, std::move(entry));
}

void Scheduler::apply_span(const StepPlan& plan, const SpanPlan& span, const SpanResult& result) {
  Entry* entry = find(running_, span.sequence);
  MR_CHECK(
      entry != nullptr && entry->n_computed == span.begin, "sequence {} has moved", span.sequence);
  const int64_t n_held = span.n_blocks - span.n_new_blocks;
  const std::span<const BlockId> fresh(plan.blocks.data() + span.first_block + n_held,
                                       static_cast<size_t>(span.n_new_blocks));
  pool_.take(fresh);
  entry->blocks.insert(entry->blocks.end(), fresh.begin(), fresh.end());
  entry->n_computed += span.count;
  entry->n_known += result.n_appended;
  entry->wants_prompt_logits = entry->wants_prompt_logits && entry->n_computed < entry->n_prompt;
  if (result.is_finished) {
    remove(span.sequence);
    return;
  }
  MR_CHECK(
      entry->n_computed < entry->n_known, "sequence {} has nothing left to compute", span.sequence);
}

void Scheduler::apply(StepPlan plan, const std::vector<SpanResult>& results) {
  MR_CHECK(results.size() == plan.spans.size(),
           "{} results for {} spans",
           results.size(),
           plan.spans.size());
  for (const SequenceId id : plan.preempted) {
    apply_preemption(id);
  }
  for (const SequenceId id : plan.admitted) {
    Entry* entry = find(waiting_, id);
    MR_CHECK(entry != nullptr, "sequence {} does not wait", id);
    Entry moved = std::move(*entry);
    waiting_.erase(waiting_.begin() + (entry - waiting_.data()));
    insert(running_, std::move(moved));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    apply_span(plan, plan.spans[i], results[i]);
  }
  spare_ = std::move(plan);
}

bool Scheduler::check() const {
  int64_t n_held = 0;
  for (const Entry& entry : waiting_) {
    if (!entry.blocks.empty() || entry.n_computed != 0) {
      return false;
    }
  }
  for (const Entry& entry : running_) {
    n_held += static_cast<int64_t>(entry.blocks.size());
    if (n_missing_blocks(entry, entry.n_computed) > 0 || entry.n_computed >= entry.n_known ||
        (reserves_maximum(entry) && n_missing_blocks(entry, n_maximum(entry)) > 0)) {
      return false;
    }
  }
  return pool_.check() && n_held == pool_.n_used() &&
         std::is_sorted(waiting_.begin(), waiting_.end(), comes_before) &&
         std::is_sorted(running_.begin(), running_.end(), comes_before);
}

}  // namespace millrace

#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {
Scheduler::Scheduler(SchedulerLimits limits)
    : limits_(limits),
      pool_(limits.n_blocks),
      index_(pool_, {.block_tokens = limits.block_tokens, .n_key_bits = limits.n_key_bits}),
      picker_(pool_) {
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

// The tables of pool, index and picker; then a key and a place in its sequence's table, in the
// plan's and in that of the hits.
size_t Scheduler::bytes_per_block() {
  return BlockPool::bytes_per_block() + PrefixIndex::bytes_per_block() +
         BlockPicker::bytes_per_block() + sizeof(Digest128) + 4 * sizeof(BlockId);
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
  Entry entry{.id = spec.id,
              .priority = spec.priority,
              .n_prompt = spec.n_prompt,
              .n_known = spec.n_prompt,
              .n_limit = spec.n_prompt + spec.max_new,
              .wants_prompt_logits = spec.wants_prompt_logits,
              .tokens = spec.tokens,
              .space = index_.acquire(spec.cache_namespace)};
  if (spec.is_twin) {
    if (const Entry* twin = find(waiting_, spec.id - 1)) {
      entry.keys = twin->keys;
    }
  }
  if (limits_.has_prefix_cache) {
    index_.extend_keys(entry.space, tokens_of(entry, 0, entry.n_known), entry.keys);
  }
  insert(waiting_, std::move(entry));
}

std::span<const TokenId> Scheduler::tokens_of(const Entry& entry,
                                              int64_t begin,
                                              int64_t end) const {
  MR_CHECK(begin <= end && end <= static_cast<int64_t>(entry.tokens->size()),
           "tokens {} to {} of {}",
           begin,
           end,
           entry.tokens->size());
  return {entry.tokens->data() + begin, static_cast<size_t>(end - begin)};
}

// Takes it out of the list; what it computed stays in the cache.
void Scheduler::drop(std::vector<Entry>& entries, Entry& entry) {
  publish_tail(entry);
  pool_.release(entry.blocks);
  index_.release(entry.space);
  entries.erase(entries.begin() + (&entry - entries.data()));
}

void Scheduler::remove(SequenceId id) {
  for (std::vector<Entry>* entries : {&waiting_, &running_}) {
    if (Entry* entry = find(*entries, id)) {
      drop(*entries, *entry);
      return;
    }
  }
}

void Scheduler::offer_drafts(SequenceId id, int64_t n_drafts) {
  Entry* entry = find(running_, id);
  MR_CHECK(entry != nullptr && n_drafts >= 0, "sequence {} does not run", id);
  entry->n_drafts = n_drafts;
}

std::span<const BlockId> Scheduler::blocks_of(SequenceId id) const {
  const auto entry =
      std::find_if(running_.begin(), running_.end(), [&](const Entry& e) { return e.id == id; });
  MR_CHECK(entry != running_.end(), "sequence {} does not run", id);
  return entry->blocks;
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
bool Scheduler::add_span(StepPlan& plan, const Entry& entry, int64_t begin) {
  const int64_t chunk = entry.wants_prompt_logits ? limits_.block_tokens : limits_.prefill_chunk;
  const int64_t edge = (begin / chunk + 1) * chunk;
  SpanPlan span{
      .sequence = entry.id, .begin = begin, .count = std::min(edge, entry.n_known) - begin};
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
          add_span(plan, entry, entry.n_computed)) {
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

void Scheduler::assign_blocks(StepPlan& plan,
                              SpanPlan& span,
                              const std::vector<BlockId>& held,
                              int64_t n_new) {
  span.n_new_blocks = n_new;
  span.first_block = static_cast<int64_t>(plan.blocks.size());
  plan.blocks.insert(plan.blocks.end(), held.begin(), held.end());
  picker_.pick(n_new, plan.blocks);
  span.n_blocks = static_cast<int64_t>(plan.blocks.size()) - span.first_block;
}

// Lengthens the spans of decoding sequences by their drafts, with what everybody else has left.
void Scheduler::add_drafts(StepPlan& plan) {
  for (SpanPlan& span : plan.spans) {
    const Entry* entry = find(running_, span.sequence);
    if (entry == nullptr || entry->n_drafts == 0 || span.count != 1 || !span.is_sampling) {
      continue;
    }
    const int64_t n_others = n_running() + static_cast<int64_t>(plan.admitted.size());
    const int64_t n_spare_blocks = std::max<int64_t>(picker_.n_free() - n_others, 0);
    const int64_t n_room =
        (span.n_blocks + n_spare_blocks) * limits_.block_tokens - (span.begin + span.count);
    const int64_t n = std::min({entry->n_drafts,
                                entry->n_limit - entry->n_known - 1,
                                limits_.max_batch_tokens - plan.n_tokens,
                                limits_.max_logits - plan.n_logits,
                                n_room});
    if (n <= 0) {
      continue;
    }
    const int64_t n_blocks = blocks_for(span.begin + span.count + n, limits_.block_tokens);
    if (n_blocks > span.n_blocks) {  // a longer table, at the end
      const auto first = static_cast<size_t>(span.first_block);
      span.first_block = static_cast<int64_t>(plan.blocks.size());
      for (size_t i = first; i < first + static_cast<size_t>(span.n_blocks); ++i) {
        plan.blocks.push_back(plan.blocks[i]);
      }
      picker_.pick(n_blocks - span.n_blocks, plan.blocks);
      span.n_new_blocks += n_blocks - span.n_blocks;
      span.n_blocks = n_blocks;
    }
    span.n_drafts = n;
    span.count += n;
    span.n_logits += n;
    plan.n_tokens += n;
    plan.n_logits += n;
  }
}

StepPlan Scheduler::plan() {
  StepPlan plan = std::move(spare_);
  plan.preempted.clear();
  plan.admitted.clear();
  plan.blocks.clear();
  plan.copies.clear();
  picker_.reset();
  make_room(plan);
  for (SpanPlan& span : plan.spans) {
    const Entry& entry = *find(running_, span.sequence);
    assign_blocks(plan, span, entry.blocks, n_missing_blocks(entry, span.begin + span.count));
  }
  if (plan.preempted.empty()) {
    admit(plan);
  }
  add_drafts(plan);
  return plan;
}

void Scheduler::apply_preemption(SequenceId id) {
  Entry* running = find(running_, id);
  MR_CHECK(running != nullptr, "sequence {} does not run", id);
  publish_tail(*running);
  Entry entry = std::move(*running);
  running_.erase(running_.begin() + (running - running_.data()));
  counters_.n_preemptions += 1;
  pool_.release(entry.blocks);
  entry.blocks.clear();
  entry.n_drafts = 0;
  entry.n_given_up = entry.n_computed;
  entry.n_computed = 0;
  entry.n_published = 0;
  entry.n_preemptions += 1;
  insert(waiting_, std::move(entry));
}

void Scheduler::apply_admission(SequenceId id) {
  Entry* waiting = find(waiting_, id);
  MR_CHECK(waiting != nullptr, "sequence {} does not wait", id);
  Entry entry = std::move(*waiting);
  waiting_.erase(waiting_.begin() + (waiting - waiting_.data()));
  insert(running_, std::move(entry));
}

// The span's sequence gets the blocks that it shares and those that it will fill.
void Scheduler::apply_blocks(const StepPlan& plan, const SpanPlan& span) {
  Entry* entry = find(running_, span.sequence);
  MR_CHECK(entry != nullptr, "sequence {} does not run", span.sequence);
  const std::span<const BlockId> table(plan.blocks.data() + span.first_block,
                                       static_cast<size_t>(span.n_blocks));
  const auto fresh = table.last(static_cast<size_t>(span.n_new_blocks));
  if (entry->blocks.empty()) {  // just admitted
    const auto shared = table.first(table.size() - fresh.size());
    pool_.touch(shared);
    entry->n_computed = span.begin;
    entry->n_published = static_cast<int64_t>(shared.size());
    counters_.n_recomputed_tokens += std::max<int64_t>(entry->n_given_up - span.begin, 0);
    if (!entry->was_admitted) {
      entry->was_admitted = true;
      counters_.n_prompt_tokens += entry->n_prompt;
      counters_.n_cached_tokens += span.begin;
    }
    entry->blocks.reserve(static_cast<size_t>(blocks_for(n_maximum(*entry), limits_.block_tokens)));
    entry->blocks.assign(shared.begin(), shared.end());
  }
  for (const BlockId block : fresh) {
    index_.forget(block);
  }
  pool_.take(fresh);
  entry->blocks.insert(entry->blocks.end(), fresh.begin(), fresh.end());
}

// Makes the whole blocks that it computed known to the cache; where another block holds the same,
// it takes that one over.
void Scheduler::publish(Entry& entry) {
  if (!limits_.has_prefix_cache) {
    return;
  }
  const int64_t n_whole = entry.n_computed / limits_.block_tokens;
  index_.extend_keys(entry.space, tokens_of(entry, 0, n_whole * limits_.block_tokens), entry.keys);
  for (; entry.n_published < n_whole; ++entry.n_published) {
    const int64_t begin = entry.n_published * limits_.block_tokens;
    const auto index = static_cast<size_t>(entry.n_published);
    BlockId& block = entry.blocks[index];
    const BlockId same = index_.publish(entry.space,
                                        index == 0 ? kNoBlock : entry.blocks[index - 1],
                                        entry.keys[index],
                                        tokens_of(entry, begin, begin + limits_.block_tokens),
                                        block);
    if (same != block) {
      pool_.touch({&same, 1});
      pool_.release({&block, 1});
      block = same;
      counters_.n_merged_blocks += 1;
    }
  }
}

void Scheduler::publish_tail(Entry& entry) {
  const int64_t begin = entry.n_published * limits_.block_tokens;
  if (limits_.has_prefix_cache && begin < entry.n_computed) {
    const auto index = static_cast<size_t>(entry.n_published);
    index_.publish_part(entry.space,
                        index == 0 ? kNoBlock : entry.blocks[index - 1],
                        tokens_of(entry, begin, entry.n_computed),
                        entry.blocks[index]);
  }
}

void Scheduler::apply_span(const SpanPlan& span, const SpanResult& result) {
  Entry& entry = *find(running_, span.sequence);
  MR_CHECK(entry.n_computed == span.begin, "sequence {} has moved", span.sequence);
  if (result.is_failed) {
    entry.n_computed = entry.n_published * limits_.block_tokens;
    drop(running_, entry);
    return;
  }
  const bool is_prompt = entry.n_computed < entry.n_prompt;
  const int64_t n_rejected = span.n_drafts > 0 ? span.n_drafts + 1 - result.n_appended : 0;
  MR_CHECK(n_rejected >= 0 && (span.n_drafts == 0 || result.n_appended > 0),
           "{} tokens from {} drafts",
           result.n_appended,
           span.n_drafts);
  entry.n_computed += span.count - n_rejected;
  entry.n_known += result.n_appended;
  publish(entry);
  if (result.is_finished) {
    drop(running_, entry);
    return;
  }
  MR_CHECK(
      entry.n_computed < entry.n_known, "sequence {} has nothing left to compute", span.sequence);
  if (is_prompt && entry.n_computed >= entry.n_prompt) {
    publish_tail(entry);
    entry.wants_prompt_logits = false;
  }
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
    apply_admission(id);
  }
  for (const SpanPlan& span : plan.spans) {
    apply_blocks(plan, span);
  }
  for (Entry& entry : running_) {
    entry.n_drafts = 0;
  }
  for (const BlockCopy& copy : plan.copies) {  // used just now: given away later
    pool_.touch({&copy.from, 1});
    pool_.release({&copy.from, 1});
  }
  for (size_t i = 0; i < results.size(); ++i) {
    apply_span(plan.spans[i], results[i]);
  }
  spare_ = std::move(plan);
}

bool Scheduler::check() const {
  std::vector<uint32_t> n_held(static_cast<size_t>(pool_.n_total()));
  for (const Entry& entry : waiting_) {
    if (!entry.blocks.empty() || entry.n_computed != 0) {
      return false;
    }
  }
  for (const Entry& entry : running_) {
    for (const BlockId block : entry.blocks) {
      ++n_held[block];
    }
    if (entry.n_published > entry.n_computed / limits_.block_tokens ||
        n_missing_blocks(entry, entry.n_computed) > 0 || entry.n_computed >= entry.n_known ||
        (reserves_maximum(entry) && n_missing_blocks(entry, n_maximum(entry)) > 0)) {
      return false;
    }
  }
  for (BlockId block = 0; block < n_held.size(); ++block) {
    if (n_held[block] != pool_.references(block)) {
      return false;
    }
  }
  return pool_.check() && index_.check() &&
         std::is_sorted(waiting_.begin(), waiting_.end(), comes_before) &&
         std::is_sorted(running_.begin(), running_.end(), comes_before);
}

}  // namespace millrace

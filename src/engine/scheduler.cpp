#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

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
  spare_.blocks.reserve(static_cast<size_t>(limits.n_blocks));
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

Scheduler::Entry& Scheduler::running(SequenceId id) {
  const auto found = entries_.find(id);
  MR_CHECK(found != entries_.end() && found->second.is_running, "sequence {} does not run", id);
  return found->second;
}

void Scheduler::start(Entry& entry) {
  dequeue(entry);
  running_.insert(std::ranges::upper_bound(running_, &entry, Before()), &entry);
  entry.is_running = true;
}

// Running or waiting, it is in neither list afterwards.
void Scheduler::stop(Entry& entry) {
  if (entry.is_running) {
    running_.erase(std::ranges::lower_bound(running_, &entry, Before()));
    entry.is_running = false;
  } else {
    dequeue(entry);
  }
}

void Scheduler::enqueue(Entry& entry) {
  if (is_fair()) {
    Share& share = shares_[entry.client];
    if (share.n_waiting == 0) {
      join_round(share);
    }
    ++share.n_waiting;
  }
  waiting_.insert(&entry);
}

void Scheduler::dequeue(Entry& entry) {
  if (is_fair()) {
    --shares_.at(entry.client).n_waiting;
  }
  waiting_.erase(&entry);
}

void Scheduler::submit(const SequenceSpec& spec) {
  MR_CHECK(spec.n_prompt >= 1 && spec.max_new >= 0);
  MR_CHECK(
      check_fit(spec.n_prompt, spec.max_new).has_value(), "sequence {} can never run", spec.id);
  const auto [place, is_new] =
      entries_.try_emplace(spec.id,
                           Entry{.id = spec.id,
                                 .client = is_fair() ? spec.client : 0,
                                 .priority = spec.priority,
                                 .n_prompt = spec.n_prompt,
                                 .n_known = spec.n_prompt,
                                 .n_limit = spec.n_prompt + spec.max_new,
                                 .wants_prompt_logits = spec.wants_prompt_logits,
                                 .tokens = spec.tokens,
                                 .space = index_.acquire(spec.cache_namespace)});
  MR_CHECK(is_new, "sequence {} is there already", spec.id);
  Entry& entry = place->second;
  if (spec.is_twin) {
    if (const auto twin = entries_.find(spec.id - 1);
        twin != entries_.end() && twin->second.n_known == spec.n_prompt) {
      entry.keys = twin->second.keys;
    }
  }
  if (limits_.has_prefix_cache) {
    index_.extend_keys(entry.space, tokens_of(entry, 0, entry.n_known), entry.keys);
  }
  enqueue(entry);
}

void Scheduler::set_tokens(SequenceId id, const std::vector<TokenId>& tokens) {
  Entry& entry = entries_.at(id);
  MR_CHECK(tokens.size() == entry.tokens->size(), "{} tokens, {}", tokens.size(), entry.n_known);
  entry.tokens = &tokens;
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

// It is gone; what it computed stays in the cache.
void Scheduler::drop(Entry& entry) {
  publish_tail(entry);
  pool_.release(entry.blocks);
  index_.release(entry.space);
  stop(entry);
  entries_.erase(SequenceId{entry.id});
}

void Scheduler::remove(SequenceId id) {
  if (const auto found = entries_.find(id); found != entries_.end()) {
    drop(found->second);
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

// Prompt tokens that the next span may have. Someone always gets one, so that prompts end.
int64_t Scheduler::n_prompt_tokens_allowed() const {
  if (has_prompt_tokens_) {
    return n_prompt_tokens_left_;
  }
  const bool has_others =
      !limits_.fills_steps &&
      (prefills_.size() > 1 || (!waiting_.empty() && n_running() < limits_.max_sequences));
  const int64_t for_others = has_others ? std::min(kSmallestChunk, n_prompt_tokens_left_ / 2) : 0;
  return std::max<int64_t>(n_prompt_tokens_left_ - for_others, 1);
}

// The sequence's next span, if the budget has room for all of it.
bool Scheduler::add_span(StepPlan& plan, const Entry& entry, int64_t begin) {
  const int64_t chunk = entry.wants_prompt_logits ? limits_.block_tokens : limits_.prefill_chunk;
  const int64_t n_left = entry.n_known - begin;
  const bool is_whole = limits_.fills_steps && !entry.wants_prompt_logits;
  int64_t count = is_whole ? n_left : std::min((begin / chunk + 1) * chunk - begin, n_left);
  if (n_left > 1) {
    int64_t n_allowed = n_prompt_tokens_allowed();
    // What was found in the cache takes rows too, and is not counted among the prompts' tokens.
    if (limits_.fills_steps) {
      n_allowed = std::min(n_allowed, limits_.max_batch_tokens - plan.n_tokens);
    }
    if (count > n_allowed) {
      const int64_t piece = std::min({kSmallestChunk, limits_.block_tokens, limits_.prefill_chunk});
      const int64_t n_to_edge = (begin + n_allowed) / piece * piece - begin;
      count = n_to_edge > 0 ? n_to_edge : n_allowed;
    }
  }
  SpanPlan span{.sequence = entry.id, .begin = begin, .count = count};
  span.is_sampling = count == n_left && entry.n_known < entry.n_limit;
  span.n_logits = entry.wants_prompt_logits ? count : (span.is_sampling ? 1 : 0);
  if (count <= 0 || plan.n_tokens + count > limits_.max_batch_tokens ||
      plan.n_logits + span.n_logits > limits_.max_logits) {
    return false;
  }
  if (n_left > 1) {
    n_prompt_tokens_left_ = std::max<int64_t>(n_prompt_tokens_left_ - count, 0);
    has_prompt_tokens_ = true;
  }
  plan.n_tokens += count;
  plan.n_logits += span.n_logits;
  plan.spans.push_back(span);
  planned_.push_back(&entry);
  return true;
}

// Gives every running sequence that is not preempted its span; returns the blocks they lack.
int64_t Scheduler::grant_running(StepPlan& plan, int64_t max_prompt_tokens) {
  plan.spans.clear();
  plan.n_tokens = plan.n_logits = 0;
  planned_.clear();
  prefills_.clear();
  held_back_.clear();
  n_prompt_tokens_left_ = max_prompt_tokens;
  has_prompt_tokens_ = false;
  int64_t n_missing = 0;
  const auto grant = [&](const Entry& entry) {
    if (add_span(plan, entry, entry.n_computed)) {
      n_missing += n_missing_blocks(entry, plan.spans.back().begin + plan.spans.back().count);
    }
  };
  for (const Entry* entry : running_) {
    if (is_preempted(*entry)) {
      continue;
    }
    if (entry->n_known - entry->n_computed == 1) {
      grant(*entry);
    } else {
      prefills_.push_back({entry, entry->n_computed});
    }
  }
  if (limits_.fills_steps) {
    n_prompt_tokens_left_ =
        std::min(n_prompt_tokens_left_, limits_.max_batch_tokens - plan.n_tokens);
  }
  if (is_fair()) {
    order_prefills();
  }
  const auto n_granted = prefills_.size() - held_back_.size();
  for (size_t i = 0; i < n_granted; ++i) {
    grant(*prefills_[i].entry);
  }
  return n_missing;
}

// Never one that has its maximum.
Scheduler::Entry* Scheduler::choose_victim() const {
  Entry* victim = nullptr;
  for (Entry* entry : running_) {
    if (reserves_maximum(*entry) || is_preempted(*entry)) {
      continue;
    }
    victim = victim == nullptr || is_sooner_victim(*entry, *victim) ? entry : victim;
  }
  return victim;
}

// Whose client has had most, then lowest priority, then least to compute again, then the youngest.
bool Scheduler::is_sooner_victim(const Entry& entry, const Entry& victim) const {
  if (entry.client != victim.client) {
    return std::pair(n_served(entry.client), entry.client) >
           std::pair(n_served(victim.client), victim.client);
  }
  return entry.priority > victim.priority ||
         (entry.priority == victim.priority &&
          (entry.n_computed < victim.n_computed ||
           (entry.n_computed == victim.n_computed && entry.id > victim.id)));
}

// Spans for the running sequences, with victims until the rest has the blocks it needs. Those that
// reserve their maximum lack none, so whoever lacks some can itself be a victim: this ends.
void Scheduler::make_room(StepPlan& plan, int64_t max_prompt_tokens) {
  while (grant_running(plan, max_prompt_tokens) > picker_.n_free()) {
    Entry* victim = choose_victim();
    MR_CHECK(victim != nullptr, "no sequence to preempt, {} running", running_.size());
    plan.preempted.push_back(victim->id);
    victim->preempting_plan = n_plans_;
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

void Scheduler::add_drafts(StepPlan& plan, std::span<const int64_t> n_drafts) {
  const int64_t n_others = n_running() + std::ssize(plan.admitted);
  const bool is_someone_short =
      n_waiting() - n_loading() > std::ssize(plan.admitted) && n_others < limits_.max_sequences;
  for (size_t i = 0; i < plan.spans.size() - plan.admitted.size(); ++i) {
    SpanPlan& span = plan.spans[i];
    const Entry& entry = *planned_[i];
    if (n_drafts[i] == 0 || span.count != 1 || !span.is_sampling) {
      continue;
    }
    const int64_t n_spare_blocks =
        is_someone_short ? 0 : std::max<int64_t>(picker_.n_free() - n_others, 0);
    const int64_t n_room =
        (span.n_blocks + n_spare_blocks) * limits_.block_tokens - (span.begin + span.count);
    const int64_t n = std::min({n_drafts[i],
                                entry.n_limit - entry.n_known - 1,
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
      for (size_t at = first; at < first + static_cast<size_t>(span.n_blocks); ++at) {
        plan.blocks.push_back(plan.blocks[at]);
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

StepPlan Scheduler::plan(int64_t max_prompt_tokens) {
  StepPlan plan = std::move(spare_);
  plan.preempted.clear();
  plan.admitted.clear();
  plan.overtaken.clear();
  plan.blocks.clear();
  plan.copies.clear();
  plan.loads.clear();
  picker_.reset();
  ++n_plans_;
  make_room(plan, max_prompt_tokens);
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    SpanPlan& span = plan.spans[i];
    const Entry& entry = *planned_[i];
    assign_blocks(plan, span, entry.blocks, n_missing_blocks(entry, span.begin + span.count));
  }
  if (plan.preempted.empty()) {
    admit(plan);
  }
  grant_held_back(plan);
  return plan;
}

void Scheduler::apply_preemption(SequenceId id) {
  Entry& entry = running(id);
  publish_tail(entry);
  counters_.n_preemptions += 1;
  pool_.release(entry.blocks);
  entry.blocks.clear();
  entry.n_given_up = entry.n_computed;
  entry.n_computed = 0;
  entry.n_published = 0;
  entry.n_preemptions += 1;
  entry.has_loaded = false;
  stop(entry);
  enqueue(entry);
}

void Scheduler::apply_admission(SequenceId id) {
  const auto found = entries_.find(id);
  MR_CHECK(found != entries_.end() && !found->second.is_running, "sequence {} does not wait", id);
  start(found->second);
}

// The span's sequence gets the blocks that it shares and those that it will fill.
void Scheduler::apply_blocks(const StepPlan& plan, const SpanPlan& span) {
  Entry& entry = running(span.sequence);
  const std::span<const BlockId> table(plan.blocks.data() + span.first_block,
                                       static_cast<size_t>(span.n_blocks));
  const auto fresh = table.last(static_cast<size_t>(span.n_new_blocks));
  if (entry.blocks.empty()) {  // just admitted
    const auto shared = table.first(table.size() - fresh.size());
    pool_.touch(shared);
    entry.n_computed = span.begin;
    entry.n_published = static_cast<int64_t>(shared.size());
    counters_.n_recomputed_tokens += std::max<int64_t>(entry.n_given_up - span.begin, 0);
    if (!entry.was_admitted) {
      entry.was_admitted = true;
      counters_.n_prompt_tokens += entry.n_prompt;
      counters_.n_cached_tokens += span.begin;
    }
    const auto n_most = static_cast<size_t>(blocks_for(n_maximum(entry), limits_.block_tokens));
    entry.blocks.reserve(n_most);
    entry.keys.reserve(n_most);
    entry.blocks.assign(shared.begin(), shared.end());
    for (size_t i = 0; n_stored_ && i < shared.size(); ++i) {
      whole_blocks_.push_back({entry.id, static_cast<int64_t>(i), shared[i]});
    }
  }
  for (const BlockId block : fresh) {
    index_.forget(block);
  }
  pool_.take(fresh);
  entry.blocks.insert(entry.blocks.end(), fresh.begin(), fresh.end());
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
    if (n_stored_) {
      whole_blocks_.push_back({entry.id, entry.n_published, block});
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
  Entry& entry = running(span.sequence);
  MR_CHECK(entry.n_computed == span.begin, "sequence {} has moved", span.sequence);
  if (result.is_failed) {
    charge(entry, span.count);
    entry.n_computed = entry.n_published * limits_.block_tokens;
    drop(entry);
    return;
  }
  const bool is_prompt = entry.n_computed < entry.n_prompt;
  const int64_t n_rejected = span.n_drafts > 0 ? span.n_drafts + 1 - result.n_appended : 0;
  MR_CHECK(n_rejected >= 0 && (span.n_drafts == 0 || result.n_appended > 0),
           "{} tokens from {} drafts",
           result.n_appended,
           span.n_drafts);
  charge(entry, span.count - n_rejected);
  entry.n_computed += span.count - n_rejected;
  entry.n_known += result.n_appended;
  publish(entry);
  if (result.is_finished) {
    drop(entry);
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
  whole_blocks_.clear();
  for (const SequenceId id : plan.preempted) {
    apply_preemption(id);
  }
  for (const SequenceId id : plan.admitted) {
    apply_admission(id);
  }
  for (const SequenceId id : plan.overtaken) {
    ++entries_.at(id).n_overtaken;
  }
  for (const LoadPlan& load : plan.loads) {
    apply_load(plan, load);
  }
  for (const SpanPlan& span : plan.spans) {
    apply_blocks(plan, span);
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
  for (const Entry* waiting : waiting_) {
    if (waiting->is_loading && !loads_.contains(waiting->id)) {
      return false;
    }
    if (!waiting->blocks.empty() || waiting->n_computed != 0 || waiting->is_running ||
        waiting->n_overtaken > limits_.max_overtakings) {
      return false;
    }
  }
  for (const Entry* running : running_) {
    const Entry& entry = *running;
    for (const BlockId block : entry.blocks) {
      ++n_held[block];
    }
    if (entry.n_published > entry.n_computed / limits_.block_tokens || !entry.is_running ||
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
  int64_t n_in_transfer = 0;
  for (const auto& [id, load] : loads_) {
    n_in_transfer += std::ssize(load.blocks);
  }
  return pool_.n_in_transfer() == n_in_transfer && pool_.check() && index_.check() &&
         waiting_.size() + running_.size() == entries_.size() &&
         std::ranges::is_sorted(running_, Before()) && check_shares();
}

}  // namespace millrace

#include "engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace millrace {
namespace {

void add(std::atomic<int64_t>& counter, int64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

EngineLoop::EngineLoop(Executor& executor,
                       const SchedulerLimits& limits,
                       const Speculation& speculation,
                       const Tokenizer& tokenizer,
                       Metrics& metrics,
                       SharedCounters& counters)
    : executor_(executor),
      speculation_(speculation),
      tokenizer_(tokenizer),
      metrics_(metrics),
      counters_(counters),
      scheduler_(limits) {
  counters_.blocks_free.store(limits.n_blocks, std::memory_order_relaxed);
  metrics_.blocks_free.set(static_cast<double>(limits.n_blocks));
}

void EngineLoop::submit(std::shared_ptr<RequestState> state) {
  const Request& request = state->request;
  state->n_unfinished = request.n;
  for (int choice = 0; choice < request.n; ++choice) {
    const SequenceId id = next_id_++;
    auto sequence = std::make_unique<SequenceState>(id, choice, state, tokenizer_);
    scheduler_.submit({.id = id,
                       .priority = request.priority,
                       .n_prompt = sequence->n_prompt(),
                       .max_new = state->max_new,
                       .wants_prompt_logits = request.prompt_logprobs.has_value(),
                       .cache_namespace = request.cache_salt,
                       .tokens = &sequence->tokens,
                       .is_twin = choice > 0});
    sequences_.emplace(id, std::move(sequence));
    add(counters_.prompt_tokens, static_cast<int64_t>(request.prompt.size()));
    metrics_.prompt_tokens.add(static_cast<double>(request.prompt.size()));
  }
}

void EngineLoop::step() {
  now_ = Clock::now();
  const TimePoint begin = now_;
  end_cancelled();
  propose();
  StepPlan plan = scheduler_.plan();
  if (plan.is_empty()) {
    fail_stuck();
    notify_readers();
    return;
  }
  note_admissions(plan);
  for (const SequenceId id : plan.preempted) {
    sequences_.at(id)->is_decoding = false;
  }
  planned_.clear();
  for (const SpanPlan& span : plan.spans) {
    planned_.push_back(sequences_.at(span.sequence).get());
  }
  const TimePoint planned = Clock::now();
  const std::span<const SpanOutput> outputs = executor_.run(plan, planned_);
  now_ = Clock::now();
  note_cost(plan, seconds_between(planned, now_));
  results_.clear();
  ended_.clear();
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    results_.push_back(deliver(plan.spans[i], outputs[i], *planned_[i]));
    note_drafts(plan.spans[i], outputs[i], results_.back(), *planned_[i]);
    if (results_.back().is_finished) {
      ended_.push_back(plan.spans[i].sequence);
    }
  }
  note_step(plan, begin);
  const int64_t recomputed_before = scheduler_.counters().n_recomputed_tokens;
  scheduler_.apply(std::move(plan), results_);
  if (const int64_t n = scheduler_.counters().n_recomputed_tokens - recomputed_before; n > 0) {
    add(counters_.recomputed_tokens, n);
    metrics_.recomputed_tokens.add(static_cast<double>(n));
  }
  for (const SequenceId id : ended_) {
    sequences_.erase(id);
  }
  notify_readers();
}

void EngineLoop::end_cancelled() {
  for (auto next = sequences_.begin(); next != sequences_.end();) {
    const auto [id, sequence] = std::pair(next->first, next->second.get());
    const std::shared_ptr<TokenStream>& stream = sequence->state->stream;
    if (stream->is_cancelled() || stream.use_count() == 1) {
      finish(*sequence, FinishReason::kCancelled);
      scheduler_.remove(id);
      next = sequences_.erase(next);
    } else {
      ++next;
    }
  }
}

// Guesses for the sequences that decode, as many as are worth their rows. Not while prompts are
// computed: such a step has no time to spare.
void EngineLoop::propose() {
  if (speculation_.max_drafts == 0 || scheduler_.n_waiting() > 0) {
    return;
  }
  const int64_t n_decoding = collect_offers();
  if (n_decoding < scheduler_.n_running()) {
    return;
  }
  if (speculation_.adapts) {
    const SchedulerLimits& limits = scheduler_.limits();
    const int64_t max_rows = std::min(limits.max_batch_tokens, limits.max_logits);
    choose_draft_lengths(step_cost_.rows_per_base(), n_decoding, max_rows - n_decoding, offers_);
  } else {
    std::ranges::for_each(offers_, [](DraftOffer& offer) { offer.n_used = offer.n_offered; });
  }
  draft_with_model();
  for (size_t i = 0; i < offers_.size(); ++i) {
    SequenceState& sequence = *proposing_[i];
    const auto n_drafts = std::min<int64_t>(offers_[i].n_used, std::ssize(sequence.drafts));
    if (n_drafts > 0) {
      scheduler_.offer_drafts(sequence.id, n_drafts);
    } else if (offers_[i].n_used == 0) {
      acceptance_of(sequence).note_unused();
    }
  }
}

Acceptance& EngineLoop::acceptance_of(SequenceState& sequence) {
  return sequence.is_model_drafted ? sequence.model_acceptance : sequence.copy_acceptance;
}

// What each decoding sequence could draft: what followed the same tokens before, else what the
// draft model would say. Returns how many decode.
int64_t EngineLoop::collect_offers() {
  proposing_.clear();
  offers_.clear();
  int64_t n_decoding = 0;
  for (const auto& [id, state] : sequences_) {
    SequenceState& sequence = *state;
    if (!sequence.is_decoding) {
      continue;
    }
    ++n_decoding;
    // Nobody learns from speed what others were told: a salt keeps to itself.
    const bool is_open = sequence.request().cache_salt.empty();
    sequence.drafts.clear();
    sequence.proposer.propose(
        sequence.tokens, speculation_.max_drafts, is_open ? &answers_ : nullptr, sequence.drafts);
    sequence.is_model_drafted = sequence.drafts.empty() && executor_.draft_model() != nullptr;
    const int n_offered = sequence.is_model_drafted ? speculation_.max_drafts
                                                    : static_cast<int>(sequence.drafts.size());
    if (n_offered > 0) {
      proposing_.push_back(&sequence);
      offers_.push_back({.rate = acceptance_of(sequence).rate(), .n_offered = n_offered});
    }
  }
  const double seconds_per_row = step_cost_.seconds_per_row();
  for (size_t i = 0; i < offers_.size() && seconds_per_row > 0; ++i) {
    offers_[i].rows_each =
        proposing_[i]->is_model_drafted ? draft_cost_.seconds() / seconds_per_row : 0;
  }
  return n_decoding;
}

void EngineLoop::collect_draft_tasks() {
  draft_tasks_.clear();
  for (size_t i = 0; i < offers_.size(); ++i) {
    SequenceState& sequence = *proposing_[i];
    if (sequence.is_model_drafted && offers_[i].n_used > 0) {
      draft_tasks_.push_back({.tokens = sequence.tokens,
                              .blocks = scheduler_.blocks_of(sequence.id),
                              .n_computed = sequence.n_draft_computed,
                              .n_wanted = offers_[i].n_used,
                              .params = &sequence.request().sampling,
                              .history = sequence.has_history ? &sequence.history : nullptr,
                              .seed = sequence.seed,
                              .banned = sequence.state->end_tokens,
                              .banned_until = sequence.n_prompt() + sequence.request().min_tokens,
                              .drafts = &sequence.drafts});
    }
  }
}

void EngineLoop::draft_with_model() {
  collect_draft_tasks();
  if (draft_tasks_.empty()) {
    if (std::ranges::any_of(proposing_, &SequenceState::is_model_drafted)) {
      draft_cost_.note_unused();
    }
    return;
  }
  DraftModel& model = *executor_.draft_model();
  model.catch_up(draft_tasks_);  // once for every token, so no part of what a draft costs
  const TimePoint begin = Clock::now();
  model.draft(draft_tasks_);
  const double seconds = seconds_since(begin);
  int64_t n_drafts = 0;
  for (const DraftTask& task : draft_tasks_) {
    n_drafts += std::ssize(*task.drafts);
  }
  draft_cost_.note(n_drafts, seconds);
  auto task = draft_tasks_.begin();
  for (size_t i = 0; i < offers_.size(); ++i) {
    if (proposing_[i]->is_model_drafted && offers_[i].n_used > 0) {
      proposing_[i]->n_draft_computed = (task++)->n_computed;
    }
  }
}

// The last of what was sampled is no draft, the others are; an answer may end among them.
int64_t EngineLoop::n_accepted_of(const SpanOutput& output, int64_t n_appended) {
  return std::clamp<int64_t>(std::ssize(output.sampled) - 1, 0, n_appended);
}

void EngineLoop::note_drafts(const SpanPlan& span,
                             const SpanOutput& output,
                             const SpanResult& result,
                             SequenceState& sequence) {
  const int64_t n_accepted = n_accepted_of(output, result.n_appended);
  // What the draft model computed behind the last right guess is of no use.
  sequence.n_draft_computed =
      std::min(sequence.n_draft_computed, span.begin + span.count - span.n_drafts + n_accepted);
  if (span.n_drafts == 0) {
    return;
  }
  const int64_t n_rejected = span.n_drafts - n_accepted;
  if (!result.is_finished) {  // else the rest was not looked at
    acceptance_of(sequence).note(n_accepted, span.n_drafts);
  }
  add(counters_.accepted_drafts, n_accepted);
  add(counters_.rejected_drafts, n_rejected);
  metrics_.accepted_drafts.add(static_cast<double>(n_accepted));
  metrics_.rejected_drafts.add(static_cast<double>(n_rejected));
}

void EngineLoop::note_admissions(const StepPlan& plan) {
  for (size_t i = plan.spans.size() - plan.admitted.size(); i < plan.spans.size(); ++i) {
    SequenceState& sequence = *sequences_.at(plan.spans[i].sequence);
    sequence.n_draft_computed = plan.spans[i].begin;
    if (!sequence.is_admitted) {  // else it comes back from preemption
      sequence.is_admitted = true;
      sequence.n_cached = plan.spans[i].begin;
      if (sequence.n_cached > 0) {
        add(counters_.cached_tokens, sequence.n_cached);
        metrics_.cached_tokens.add(static_cast<double>(sequence.n_cached));
        metrics_.cache_hits.add();
      }
      sequence.admitted = now_;
      add(counters_.n_queued, -1);
      metrics_.queue_seconds.observe(seconds_between(sequence.state->submitted, now_));
    }
  }
}

SpanResult EngineLoop::deliver(const SpanPlan& span,
                               const SpanOutput& output,
                               SequenceState& sequence) {
  if (const Error* error = deliver_scores(span, output, sequence)) {
    finish(sequence, FinishReason::kError, *error);
    return {.is_finished = true, .is_failed = true};
  }
  if (span.is_sampling) {
    SpanResult result;
    const int64_t n_accepted = sequence.n_accepted;
    const int64_t n_rejected = sequence.n_rejected;
    for (const Result<SampledToken>& sampled : output.sampled) {
      const int64_t n_right = n_accepted_of(output, result.n_appended + (sampled ? 1 : 0));
      sequence.n_accepted = n_accepted + n_right;
      sequence.n_rejected = n_rejected + span.n_drafts - n_right;
      if (!sampled) {
        finish(sequence, FinishReason::kError, sampled.error());
        return {.n_appended = result.n_appended, .is_finished = true, .is_failed = true};
      }
      result.is_finished = deliver_token(*sampled, sequence);
      ++result.n_appended;
      if (result.is_finished) {
        break;
      }
    }
    sequence.is_decoding = true;
    return result;
  }
  const bool is_complete = span.begin + span.count == static_cast<int64_t>(sequence.tokens.size());
  if (is_complete) {  // an answer of no tokens
    sequence.first_token = sequence.last_token = now_;
    finish(sequence, FinishReason::kLength);
  }
  return {.is_finished = is_complete};
}

// Prompt log probabilities; the event goes out when the prompt is complete. Returns the first
// error.
const Error* EngineLoop::deliver_scores(const SpanPlan& span,
                                        const SpanOutput& output,
                                        SequenceState& sequence) {
  std::vector<PromptEvent::Entry>& entries = sequence.prompt_scores.entries;
  if (entries.empty() || span.begin >= sequence.n_prompt()) {
    return nullptr;
  }
  // Of the rows wanted the sampling ones are the last, and give no score.
  const int64_t first = span.begin + span.count - span.n_logits + 1;
  for (size_t i = 0; i < output.scores.size(); ++i) {
    const int64_t position = first + static_cast<int64_t>(i);
    if (position >= sequence.n_prompt()) {
      break;
    }
    if (!output.scores[i]) {
      return &output.scores[i].error();
    }
    const SampledToken& score = *output.scores[i];
    entries[static_cast<size_t>(position)] = {score.token, score.logprob, score.top};
  }
  if (span.begin + span.count >= sequence.n_prompt()) {
    send(sequence, {.choice = sequence.choice, .body = std::move(sequence.prompt_scores)});
    entries.clear();
  }
  return nullptr;
}

// True when it was the last.
bool EngineLoop::deliver_token(const SampledToken& sampled, SequenceState& sequence) {
  const bool is_first = sequence.n_output() == 0;
  if (is_first) {
    sequence.first_token = now_;
    metrics_.first_token_seconds.observe(seconds_between(sequence.state->submitted, now_));
  } else {
    metrics_.inter_token_seconds.observe(seconds_between(sequence.last_token, now_));
  }
  sequence.last_token = now_;
  sequence.tokens.push_back(sampled.token);
  if (sequence.has_history) {
    sequence.history.push(sampled.token);
  }
  add(counters_.generated_tokens, 1);
  metrics_.generated_tokens.add();
  if (sequence.is_end(sampled.token)) {
    sequence.text.finish();
    finish(sequence, FinishReason::kStop);
    return true;
  }
  const bool can_stop = sequence.n_output() > sequence.request().min_tokens;
  if (sequence.text.push({.token = sampled.token, .logprob = sampled.logprob, .top = sampled.top},
                         can_stop)) {
    finish(sequence, FinishReason::kStop);
    return true;
  }
  if (sequence.n_output() == sequence.state->max_new) {
    sequence.text.finish();
    finish(sequence, FinishReason::kLength);
    return true;
  }
  send_popped(sequence);
  return false;
}

// Sends what belongs to the answer and its last event. The caller removes the sequence.
void EngineLoop::finish(SequenceState& sequence, FinishReason reason, Error error) {
  RequestState& state = *sequence.state;
  send_popped(sequence);
  FinishEvent event{.reason = reason, .text = sequence.text.tail(), .error = std::move(error)};
  if (reason == FinishReason::kStop && sequence.text.has_matched()) {
    event.stop_string = sequence.text.matched_stop();
  }
  event.usage = {.prompt_tokens = sequence.n_prompt(),
                 .cached_tokens = sequence.n_cached,
                 .completion_tokens = sequence.text.n_popped(),
                 .accepted_drafts = sequence.n_accepted,
                 .rejected_drafts = sequence.n_rejected};
  if (sequence.is_admitted) {
    const bool has_token = sequence.first_token != TimePoint{};
    event.timings = {
        .queue_seconds = seconds_between(state.submitted, sequence.admitted),
        .prefill_seconds =
            seconds_between(sequence.admitted, has_token ? sequence.first_token : now_),
        .decode_seconds =
            has_token ? seconds_between(sequence.first_token, sequence.last_token) : 0};
  } else {
    add(counters_.n_queued, -1);
    event.timings.queue_seconds = seconds_between(state.submitted, now_);
  }
  if (speculation_.max_drafts > 0 && reason != FinishReason::kError &&
      state.request.cache_salt.empty()) {
    const int64_t n_before = std::min<int64_t>(sequence.n_prompt(), NgramIndex::kMaxMatch);
    answers_.add(
        std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.n_prompt() - n_before)));
  }
  event.seed = state.seed;
  event.is_last = --state.n_unfinished == 0;
  send(sequence, {.choice = sequence.choice, .body = std::move(event)});
  metrics_.finished(reason).add();
  metrics_.request_seconds.observe(seconds_between(state.submitted, now_));
  add(counters_.n_live, -1);
}

void EngineLoop::send(SequenceState& sequence, StreamEvent event) {
  RequestState& state = *sequence.state;
  state.stream->push(std::move(event));
  if (!state.has_events) {
    state.has_events = true;
    to_notify_.push_back(sequence.state);
  }
}

void EngineLoop::send_popped(SequenceState& sequence) {
  TokenEvent event;
  while (sequence.text.pop(event)) {
    send(sequence, {.choice = sequence.choice, .body = std::move(event)});
  }
}

void EngineLoop::notify_readers() {
  for (const std::shared_ptr<RequestState>& state : to_notify_) {
    state->has_events = false;
    state->stream->notify();
  }
  to_notify_.clear();
  counters_.n_running.store(scheduler_.n_running(), std::memory_order_relaxed);
  metrics_.running.set(static_cast<double>(scheduler_.n_running()));
  metrics_.waiting.set(static_cast<double>(scheduler_.n_waiting()));
  const BlockPool& pool = scheduler_.pool();
  counters_.blocks_free.store(pool.n_free(), std::memory_order_relaxed);
  metrics_.blocks_free.set(static_cast<double>(pool.n_free() - pool.n_cached()));
  metrics_.blocks_cached.set(static_cast<double>(pool.n_cached()));
  metrics_.blocks_used.set(static_cast<double>(pool.n_used()));
}

void EngineLoop::note_cost(const StepPlan& plan, double seconds) {
  const auto is_decode = [](const SpanPlan& span) { return span.count - span.n_drafts == 1; };
  if (std::ranges::all_of(plan.spans, is_decode)) {
    step_cost_.note(plan.n_tokens, seconds);
  }
}

void EngineLoop::note_step(const StepPlan& plan, TimePoint begin) {
  add(counters_.steps, 1);
  metrics_.steps.add();
  metrics_.step_seconds.observe(seconds_between(begin, now_));
  metrics_.step_tokens.observe(static_cast<double>(plan.n_tokens));
  if (!plan.preempted.empty()) {
    add(counters_.preemptions, static_cast<int64_t>(plan.preempted.size()));
    metrics_.preemptions.add(static_cast<double>(plan.preempted.size()));
  }
}

// A plan without work although sequences wait is a fault of ours; it costs the first in line its
// answer rather than everybody theirs.
void EngineLoop::fail_stuck() {
  const SequenceId id = scheduler_.next_waiting();
  if (id == Scheduler::kNoSequence) {
    return;
  }
  log_error("[engine] sequence {} cannot be scheduled with {} of {} blocks free",
            id,
            scheduler_.pool().n_free(),
            scheduler_.pool().n_total());
  finish(*sequences_.at(id),
         FinishReason::kError,
         {ErrorCode::kInternal, "the request could not be scheduled"});
  scheduler_.remove(id);
  sequences_.erase(id);
}

void EngineLoop::abort_all(const Error& error) {
  now_ = Clock::now();
  for (const auto& [id, sequence] : sequences_) {
    finish(*sequence, FinishReason::kError, error);
    scheduler_.remove(id);
  }
  sequences_.clear();
  notify_readers();
}

}  // namespace millrace

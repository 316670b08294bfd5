#include "engine/engine_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace millrace {
namespace {

constexpr double kAnswerWeight = 0.1;  // of one in the running mean of their lengths

void add(std::atomic<int64_t>& counter, int64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

EngineLoop::EngineLoop(Executor& executor,
                       const SchedulerLimits& limits,
                       const Speculation& speculation,
                       const LoopTimes& times,
                       const Tokenizer& tokenizer,
                       Metrics& metrics,
                       SharedCounters& counters,
                       std::unique_ptr<TierTraffic> traffic)
    : executor_(executor),
      speculation_(speculation),
      times_(times),
      tokenizer_(tokenizer),
      metrics_(metrics),
      counters_(counters),
      scheduler_(limits),
      traffic_(std::move(traffic)),
      step_budget_(times.max_step_seconds),
      draft_policy_(speculation.max_drafts, limits.max_sequences) {
  if (traffic_ != nullptr) {
    scheduler_.load_from([this](SequenceId id, int64_t first) {
      return traffic_->n_stored(*sequences_.at(id), first);
    });
  }
  counters_.blocks_free.store(limits.n_blocks, std::memory_order_relaxed);
  metrics_.blocks_free.set(static_cast<double>(limits.n_blocks));
}

void EngineLoop::submit(std::shared_ptr<RequestState> state) {
  const Request& request = state->request;
  state->n_unfinished = request.n;
  for (int choice = 0; choice < request.n; ++choice) {
    const SequenceId id = next_id_++;
    auto sequence = std::make_unique<SequenceState>(id, choice, state);
    scheduler_.submit({.id = id,
                       .priority = request.priority,
                       .client = request.client,
                       .n_prompt = sequence->n_prompt(),
                       .max_new = state->max_new,
                       .wants_prompt_logits = request.prompt_logprobs.has_value(),
                       .cache_namespace = request.cache_salt,
                       .tokens = &sequence->known_tokens(),
                       .is_twin = choice > 0});
    sequences_.emplace(id, std::move(sequence));
    add(counters_.prompt_tokens, static_cast<int64_t>(request.prompt.size()));
    metrics_.prompt_tokens.add(static_cast<double>(request.prompt.size()));
  }
}

void EngineLoop::step() {
  counters_.is_stepping.store(true);
  run_step();
  counters_.is_stepping.store(false);
}

void EngineLoop::rest() {
  if (traffic_ != nullptr) {
    now_ = Clock::now();
    receive_loads();
    notify_readers();
  }
}

void EngineLoop::run_step() {
  now_ = Clock::now();
  const TimePoint begin = now_;
  end_unwanted();
  receive_loads();
  StepPlan plan = scheduler_.plan(scheduler_.limits().fills_steps
                                      ? Scheduler::kNoLimit
                                      : step_budget_.max_prompt_tokens(n_decoding_));
  start_loads(plan);
  waits_for_tier_ = plan.spans.empty() && plan.preempted.empty() &&
                    (!plan.loads.empty() || scheduler_.is_loading());
  if (plan.is_empty() || waits_for_tier_) {
    if (waits_for_tier_) {
      scheduler_.apply(std::move(plan), {});
      end_overdue();
    } else {
      fail_stuck();
    }
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
  propose(plan);
  const TimePoint planned = Clock::now();
  const std::span<const SpanOutput> outputs = executor_.run(plan, planned_);
  now_ = Clock::now();
  const double run_seconds = seconds_between(planned, now_);
  step_budget_.note(plan, run_seconds);
  results_.clear();
  ended_.clear();
  n_decoding_ = 0;
  int64_t n_tokens = 0;
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    results_.push_back(deliver(plan.spans[i], outputs[i], *planned_[i]));
    note_drafts(plan.spans[i], outputs[i], results_.back(), *planned_[i]);
    n_tokens += results_.back().n_appended;
    if (results_.back().is_finished) {
      ended_.push_back(plan.spans[i].sequence);
    } else if (planned_[i]->is_decoding) {
      ++n_decoding_;
    }
  }
  if (is_speculating_) {
    draft_policy_.note_step(plan.n_tokens, run_seconds, draft_seconds_, n_tokens);
  }
  note_step(plan, begin);
  const int64_t recomputed_before = scheduler_.counters().n_recomputed_tokens;
  scheduler_.apply(std::move(plan), results_);
  if (const int64_t n = scheduler_.counters().n_recomputed_tokens - recomputed_before; n > 0) {
    add(counters_.recomputed_tokens, n);
    metrics_.recomputed_tokens.add(static_cast<double>(n));
  }
  offer_blocks();
  for (const SequenceId id : ended_) {
    sequences_.erase(id);
  }
  end_overdue();
  notify_readers();
}

template <class EndIf>
void EngineLoop::end_some(const EndIf& end_if) {
  for (auto next = sequences_.begin(); next != sequences_.end();) {
    if (end_if(*next->second)) {
      remove(next->first);
      next = sequences_.erase(next);
    } else {
      ++next;
    }
  }
}

void EngineLoop::end_unwanted() {
  end_some([&](SequenceState& sequence) {
    const RequestState& state = *sequence.state;
    if (state.stream->is_cancelled() || state.stream.use_count() == 1) {
      finish(sequence, FinishReason::kCancelled);
      return true;
    }
    if (state.deadline && *state.deadline <= now_) {
      end_at_deadline(sequence);
      return true;
    }
    return false;
  });
}

// With what the request has by now, a beginning of the whole answer: without text that may begin a
// stop string or is half a character. All its choices end in the same step, so they agree on
// whether that is anything.
void EngineLoop::end_at_deadline(SequenceState& sequence) {
  const RequestGroup* group = sequence.request().group.get();
  if (sequence.state->has_answered || (group != nullptr && group->has_answered)) {
    finish(sequence, FinishReason::kTimeout);
    return;
  }
  finish(sequence,
         FinishReason::kError,
         {ErrorCode::kDeadlineExceeded,
          fmt::format("the request's {} ms (timeout_ms) were over {}",
                      *sequence.request().timeout_ms,
                      sequence.state->has_started ? "before its first token"
                                                  : "while it waited for its turn")});
}

// After a step, so that nobody is turned away who can start at once.
void EngineLoop::end_overdue() {
  if (times_.max_queue_seconds == 0) {
    return;
  }
  end_some([&](SequenceState& sequence) {
    const double waited = seconds_between(sequence.state->submitted, now_);
    const RequestGroup* group = sequence.request().group.get();
    const bool has_started =
        sequence.state->has_started || (group != nullptr && group->has_started);
    const bool is_overdue = !has_started && waited > times_.max_queue_seconds;
    if (is_overdue) {
      finish(sequence,
             FinishReason::kError,
             {ErrorCode::kResourceExhausted,
              fmt::format("the server is busy: {:.0f} ms in the queue are more than the {:.0f} ms "
                          "that a request may wait",
                          1e3 * waited,
                          1e3 * times_.max_queue_seconds)});
    }
    return is_overdue;
  });
}

void EngineLoop::note_started(SequenceState& sequence) {
  sequence.state->has_started = true;
  if (RequestGroup* group = sequence.request().group.get()) {
    group->has_started = true;
  }
}

void EngineLoop::note_answered(SequenceState& sequence) {
  sequence.state->has_answered = true;
  if (RequestGroup* group = sequence.request().group.get()) {
    group->has_answered = true;
  }
}

void EngineLoop::note_admissions(const StepPlan& plan) {
  for (size_t i = plan.spans.size() - plan.admitted.size(); i < plan.spans.size(); ++i) {
    SequenceState& sequence = *sequences_.at(plan.spans[i].sequence);
    if (!sequence.is_prepared()) {
      sequence.prepare(tokenizer_, speculation_.max_drafts);
      scheduler_.set_tokens(sequence.id, sequence.known_tokens());
    }
    sequence.n_draft_computed = plan.spans[i].begin;
    sequence.is_draft_following = is_worth_following(sequence);
    if (!sequence.is_admitted) {  // else it comes back from preemption
      sequence.is_admitted = true;
      note_started(sequence);
      sequence.n_cached = plan.spans[i].begin;
      note_cached(sequence);
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
    note_answered(sequence);
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
    note_answered(sequence);
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
    sequence.text->finish();
    finish(sequence, FinishReason::kStop);
    return true;
  }
  const bool can_stop = sequence.n_output() > sequence.request().min_tokens;
  if (sequence.text->push({.token = sampled.token, .logprob = sampled.logprob, .top = sampled.top},
                          can_stop)) {
    finish(sequence, FinishReason::kStop);
    return true;
  }
  if (sequence.n_output() == sequence.state->max_new) {
    sequence.text->finish();
    finish(sequence, FinishReason::kLength);
    return true;
  }
  send_popped(sequence);
  return false;
}

// Sends what belongs to the answer and its last event. The caller removes the sequence.
void EngineLoop::finish(SequenceState& sequence, FinishReason reason, Error error) {
  RequestState& state = *sequence.state;
  FinishEvent event{.reason = reason, .error = std::move(error)};
  event.usage = {.prompt_tokens = sequence.n_prompt(),
                 .cached_tokens = sequence.n_cached,
                 .accepted_drafts = sequence.n_accepted,
                 .rejected_drafts = sequence.n_rejected};
  if (sequence.is_prepared()) {
    send_popped(sequence);
    event.text = sequence.text->tail();
    event.usage.completion_tokens = sequence.text->n_popped();
    if (reason == FinishReason::kStop && sequence.text->has_matched()) {
      event.stop_string = sequence.text->matched_stop();
    }
  }
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
  if (speculation_.max_drafts > 0 && reason != FinishReason::kError && sequence.is_prepared() &&
      state.request.cache_salt.empty()) {
    const int64_t n_before = std::min<int64_t>(sequence.n_prompt(), NgramIndex::kMaxMatch);
    answers_.add(
        std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.n_prompt() - n_before)));
  }
  usual_answer_ += kAnswerWeight * (static_cast<double>(sequence.n_output()) - usual_answer_);
  metrics_.finished(reason, event.error.code).add();
  event.seed = state.seed;
  event.is_last = --state.n_unfinished == 0;
  send(sequence, {.choice = sequence.choice, .body = std::move(event)});
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
  while (sequence.text->pop(event)) {
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
  metrics_.blocks_loading.set(static_cast<double>(pool.n_in_transfer()));
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

// A plan without work although sequences wait is a fault of ours; it costs the first in line (of
// some client) its answer rather than everybody theirs.
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
    remove(id);
  }
  sequences_.clear();
  notify_readers();
}

}  // namespace millrace

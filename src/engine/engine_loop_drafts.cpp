// Speculation in the step loop: who guesses how many tokens, and what became of them.
#include <algorithm>

#include "base/clock.h"
#include "engine/engine_loop.h"

namespace millrace {
// Guesses for sequences that decode, as many as are worth their rows. Not while prompts are
// computed, nor when blocks ran out: such a step has nothing to spare. Those that wait and cannot
// start in this step are no reason to hold the others up.
void EngineLoop::propose(StepPlan& plan) {
  if (speculation_.max_drafts == 0 || !plan.preempted.empty() ||
      !std::ranges::all_of(planned_, &SequenceState::is_decoding)) {
    return;
  }
  collect_offers();
  const auto n_decoding = std::ssize(planned_);
  if (speculation_.adapts) {
    const SchedulerLimits& limits = scheduler_.limits();
    const int64_t max_rows = std::min(limits.max_batch_tokens, limits.max_logits);
    choose_draft_lengths(
        step_budget_.decode_cost().rows_per_base(), n_decoding, max_rows - n_decoding, offers_);
  } else {
    std::ranges::for_each(offers_, [](DraftOffer& offer) { offer.n_used = offer.n_offered; });
  }
  draft_with_model(plan);
  n_drafts_.clear();
  for (size_t i = 0; i < offers_.size(); ++i) {
    SequenceState& sequence = *planned_[i];
    n_drafts_.push_back(std::min<int64_t>(offers_[i].n_used, std::ssize(sequence.drafts)));
    if (offers_[i].n_offered > 0 && offers_[i].n_used == 0) {
      acceptance_of(sequence).note_unused();
    }
  }
  scheduler_.add_drafts(plan, n_drafts_);
}

Acceptance& EngineLoop::acceptance_of(SequenceState& sequence) {
  return sequence.is_model_drafted ? sequence.model_acceptance : sequence.copy_acceptance;
}

// What each sequence could draft: what followed the same tokens before, else what the draft model
// would say.
void EngineLoop::collect_offers() {
  offers_.clear();
  const double seconds_per_row = step_budget_.decode_cost().seconds_per_row();
  for (SequenceState* sequence : planned_) {
    // Nobody learns from speed what others were told: a salt keeps to itself.
    const bool is_open = sequence->request().cache_salt.empty();
    sequence->drafts.clear();
    sequence->is_model_drafted = false;
    if (!sequence->request().is_speculative) {
      offers_.emplace_back();
      continue;
    }
    if (speculation_.copies) {
      sequence->proposer.propose(sequence->tokens,
                                 speculation_.max_drafts,
                                 is_open ? &answers_ : nullptr,
                                 sequence->drafts);
    }
    sequence->is_model_drafted = sequence->drafts.empty() && executor_.draft_model() != nullptr;
    DraftOffer offer{.n_offered = static_cast<int>(sequence->drafts.size())};
    if (sequence->is_model_drafted) {
      offer.n_offered = speculation_.max_drafts;
      offer.rows_each = seconds_per_row > 0 ? draft_cost_.seconds() / seconds_per_row : 0;
    }
    offer.rate = acceptance_of(*sequence).rate();
    offers_.push_back(offer);
  }
}

void EngineLoop::collect_draft_tasks(const StepPlan& plan) {
  draft_tasks_.clear();
  for (size_t i = 0; i < offers_.size(); ++i) {
    SequenceState& sequence = *planned_[i];
    const SpanPlan& span = plan.spans[i];
    if (sequence.is_model_drafted && offers_[i].n_used > 0) {
      draft_tasks_.push_back({.tokens = sequence.tokens,
                              .blocks = std::span(plan.blocks)
                                            .subspan(static_cast<size_t>(span.first_block),
                                                     static_cast<size_t>(span.n_blocks)),
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

void EngineLoop::draft_with_model(const StepPlan& plan) {
  collect_draft_tasks(plan);
  if (draft_tasks_.empty()) {
    if (std::ranges::any_of(planned_, &SequenceState::is_model_drafted)) {
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
    if (planned_[i]->is_model_drafted && offers_[i].n_used > 0) {
      planned_[i]->n_draft_computed = (task++)->n_computed;
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
  const int64_t n_judged =
      std::min<int64_t>(n_accepted + (result.is_finished ? 0 : 1), span.n_drafts);
  for (int64_t i = 0; i < n_judged; ++i) {
    auto& outcomes = i < n_accepted ? counters_.accepted_at : counters_.rejected_at;
    outcomes[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  }
  counters_.accepted_drafts.fetch_add(n_accepted, std::memory_order_relaxed);
  counters_.rejected_drafts.fetch_add(n_rejected, std::memory_order_relaxed);
  metrics_.accepted_drafts.add(static_cast<double>(n_accepted));
  metrics_.rejected_drafts.add(static_cast<double>(n_rejected));
}

}  // namespace millrace

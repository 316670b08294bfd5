// Speculation in the step loop: who guesses how many tokens, and what became of them.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "engine/engine_loop.h"

namespace millrace {
namespace {

// How many guesses come true, before there were any.
constexpr double kUnknownRate = 0.6;

}  // namespace

// Guesses for sequences that decode, as many as are worth their rows. Not while prompts are
// computed, nor when blocks ran out: such a step has nothing to spare. Those that wait and cannot
// start in this step are no reason to hold the others up.
void EngineLoop::propose(StepPlan& plan) {
  is_speculating_ = speculation_.max_drafts > 0 && plan.preempted.empty() && !planned_.empty() &&
                    std::ranges::all_of(planned_, &SequenceState::is_decoding);
  draft_seconds_ = 0;
  if (!is_speculating_) {
    return;
  }
  collect_offers();
  if (speculation_.adapts) {
    const SchedulerLimits& limits = scheduler_.limits();
    const int64_t max_rows = std::min(limits.max_batch_tokens, limits.max_logits);
    draft_policy_.choose(offers_, max_rows - std::ssize(planned_));
  } else {
    std::ranges::for_each(offers_, [](DraftOffer& offer) { offer.n_used = offer.n_offered; });
  }
  draft_with_model(plan);
  n_drafts_.clear();
  for (size_t i = 0; i < offers_.size(); ++i) {
    n_drafts_.push_back(std::min<int64_t>(offers_[i].n_used, std::ssize(planned_[i]->drafts)));
  }
  scheduler_.add_drafts(plan, n_drafts_);
}

DraftOffer EngineLoop::model_offer(const SequenceState& sequence) const {
  return {.rate = sequence.model_acceptance.rate(model_acceptance_.rate(kUnknownRate)),
          .n_offered = speculation_.max_drafts,
          .is_by_model = true,
          .n_behind = std::ssize(sequence.tokens) - 1 - sequence.n_draft_computed,
          .n_to_come = n_to_come(sequence)};
}

// As many tokens as there were, or what is missing to the usual length of an answer.
int64_t EngineLoop::n_to_come(const SequenceState& sequence) const {
  const int64_t n_output = sequence.n_output();
  const auto n_usual = static_cast<int64_t>(usual_answer_);
  return std::min(std::max(n_output, n_usual - n_output), sequence.state->max_new - n_output);
}

// Prompts take time on the draft model too: is what it then saves of the answer more?
bool EngineLoop::is_worth_following(const SequenceState& sequence) {
  if (executor_.draft_model() == nullptr || !sequence.request().is_speculative) {
    return false;
  }
  return !speculation_.adapts || !draft_policy_.is_known() ||
         draft_policy_.gain(model_offer(sequence), std::max<int64_t>(n_decoding_, 1)) >
             DraftPolicy::kMargin;
}

// What each sequence could draft: what followed the same tokens before, or what the draft model
// would say, whichever brings more.
void EngineLoop::collect_offers() {
  offers_.clear();
  for (SequenceState* sequence : planned_) {
    // Nobody learns from speed what others were told: a salt keeps to itself.
    const bool is_open = sequence->request().cache_salt.empty();
    sequence->drafts.clear();
    sequence->is_model_drafted = false;
    sequence->copied_guess = kNoToken;
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
    DraftOffer offer{.rate = sequence->copy_acceptance.rate(copy_acceptance_.rate(kUnknownRate)),
                     .n_offered = static_cast<int>(sequence->drafts.size())};
    if (!sequence->drafts.empty()) {
      sequence->copied_guess = sequence->drafts[0];
    }
    if (executor_.draft_model() != nullptr) {
      const DraftOffer by_model = model_offer(*sequence);
      sequence->is_model_drafted =
          sequence->drafts.empty() ||
          (speculation_.adapts && draft_policy_.gain(by_model, std::ssize(planned_)) >
                                      draft_policy_.gain(offer, std::ssize(planned_)));
      offer = sequence->is_model_drafted ? by_model : offer;
    }
    offers_.push_back(offer);
  }
}

void EngineLoop::collect_draft_tasks(const StepPlan& plan) {
  draft_tasks_.clear();
  for (size_t i = 0; i < offers_.size(); ++i) {
    SequenceState& sequence = *planned_[i];
    const SpanPlan& span = plan.spans[i];
    if (sequence.is_model_drafted && offers_[i].n_used > 0) {
      sequence.drafts.clear();  // a copy that promised less
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
    return;
  }
  const TimePoint begin = Clock::now();
  DraftModel& model = *executor_.draft_model();
  model.draft(draft_tasks_);
  draft_seconds_ = seconds_since(begin);
  for (const DraftModel::Pass& pass : model.passes()) {
    draft_policy_.note_draft_pass(pass.n_rows, pass.seconds);
  }
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

// A copied guess that no row was spent on: the token that came says whether it was right. It is a
// guess at this token alone, so it is taken away: the next step may make none.
void EngineLoop::note_copied_guess(const SpanPlan& span,
                                   const SpanResult& result,
                                   SequenceState& sequence) {
  const TokenId guess = std::exchange(sequence.copied_guess, kNoToken);
  const bool was_used = span.n_drafts > 0 && !sequence.is_model_drafted;
  if (guess == kNoToken || was_used || result.n_appended == 0) {
    return;
  }
  const int64_t position = span.begin + span.count - span.n_drafts;
  const bool is_right = sequence.tokens[static_cast<size_t>(position)] == guess;
  sequence.copy_acceptance.note(is_right ? 1 : 0, 1);
  copy_acceptance_.note(is_right ? 1 : 0, 1);
}

void EngineLoop::note_rates(const SpanPlan& span,
                            const SpanResult& result,
                            int64_t n_accepted,
                            SequenceState& sequence) {
  if (span.n_drafts > 0 && !result.is_finished) {  // else the rest was not looked at
    const bool is_by_model = sequence.is_model_drafted;
    (is_by_model ? sequence.model_acceptance : sequence.copy_acceptance)
        .note(n_accepted, span.n_drafts);
    (is_by_model ? model_acceptance_ : copy_acceptance_).note(n_accepted, span.n_drafts);
  }
  counters_.copy_rate.store(copy_acceptance_.rate(kUnknownRate), std::memory_order_relaxed);
}

void EngineLoop::note_drafts(const SpanPlan& span,
                             const SpanOutput& output,
                             const SpanResult& result,
                             SequenceState& sequence) {
  const int64_t n_accepted = n_accepted_of(output, result.n_appended);
  // What the draft model computed behind the last right guess is of no use.
  sequence.n_draft_computed =
      std::min(sequence.n_draft_computed, span.begin + span.count - span.n_drafts + n_accepted);
  note_copied_guess(span, result, sequence);
  note_rates(span, result, n_accepted, sequence);
  if (span.n_drafts == 0) {
    return;
  }
  const int64_t n_rejected = span.n_drafts - n_accepted;
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

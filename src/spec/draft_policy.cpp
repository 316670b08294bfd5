#include "spec/draft_policy.h"

#include <algorithm>
#include <iterator>

namespace millrace {
namespace {

constexpr double kUnknownPass = 0.25;  // of the draft model, in steps
constexpr double kTokensAStep = 2;     // over which a pass that only catches up is spread
constexpr int kTrialGap = 8;           // steps between trials, at least
constexpr double kAccountSteps = 8;    // what the account holds at most
constexpr double kFirstSteps = 4;      // and at the start, when most is to be learnt
constexpr double kWorstLoss = 4;       // of a trial, in expected ones: not what others' work took

}  // namespace

DraftPolicy::DraftPolicy(int max_drafts, int64_t max_sequences) : max_drafts_(max_drafts) {
  const auto n_sequences = static_cast<size_t>(max_sequences);
  active_.resize(static_cast<size_t>(max_drafts));
  candidates_.reserve(n_sequences);
  order_.reserve(n_sequences * static_cast<size_t>(max_drafts));
  chosen_.reserve(n_sequences);
}

double DraftPolicy::pass_seconds(int64_t n_rows) const {
  if (n_rows == 0) {
    return 0;
  }
  return passes_.is_known() ? passes_.seconds(n_rows) : kUnknownPass * steps_.seconds(n_rows);
}

double DraftPolicy::seconds(const Sketch& sketch) const {
  return steps_.seconds(sketch.n_rows) + sketch.draft_seconds;
}

DraftPolicy::Sketch DraftPolicy::plain(int64_t n_sequences) {
  std::ranges::fill(active_, 0);
  return {.n_rows = n_sequences, .n_tokens = static_cast<double>(n_sequences)};
}

// One more guess of the offer.
void DraftPolicy::add(Sketch& sketch, DraftOffer& offer) {
  double chance = offer.rate;
  for (int i = 0; i < offer.n_used; ++i) {
    chance *= offer.rate;
  }
  if (offer.is_by_model) {
    int64_t& n_active = active_[static_cast<size_t>(offer.n_used)];
    const int64_t n_before = n_active;
    ++n_active;
    if (offer.n_used == 0 && offer.n_behind <= kJoining) {
      n_active += offer.n_behind;
    } else if (offer.n_used == 0) {
      const double share =
          kTokensAStep / static_cast<double>(std::max<int64_t>(offer.n_to_come, 1));
      sketch.draft_seconds += pass_seconds(offer.n_behind) * std::min(share, 1.0);
    }
    sketch.draft_seconds += pass_seconds(n_active) - pass_seconds(n_before);
  }
  ++offer.n_used;
  ++sketch.n_rows;
  sketch.n_tokens += chance;
}

double DraftPolicy::gain(const DraftOffer& offer, int64_t n_sequences) {
  DraftOffer copy = offer;
  copy.n_used = 0;
  Sketch sketch = plain(n_sequences);
  const double without = speed(sketch);
  double best = without;
  while (copy.n_used < std::min(copy.n_offered, max_drafts_)) {
    add(sketch, copy);
    best = std::max(best, speed(sketch));
  }
  return without > 0 ? best / without : 1;
}

void DraftPolicy::push_candidate(std::span<const DraftOffer> offers,
                                 size_t index,
                                 double row_seconds) {
  const DraftOffer& offer = offers[index];
  // Until it is known what guessing takes, one guess tells.
  const int n_most = offer.is_by_model && !passes_.is_known() ? 1 : max_drafts_;
  if (offer.n_used >= std::min(offer.n_offered, n_most)) {
    return;
  }
  double chance = offer.rate;
  for (int i = 0; i < offer.n_used; ++i) {
    chance *= offer.rate;
  }
  const double cost = row_seconds + (offer.is_by_model ? pass_seconds(1) : 0);
  candidates_.push_back({.worth = chance / cost, .offer = index});
  std::push_heap(candidates_.begin(), candidates_.end());
}

// Adds guesses, the most promising first, as far as there are any, and keeps those up to the point
// at which the step was best. Of one sequence that is the best of all numbers, whatever the times.
void DraftPolicy::choose_best(std::span<DraftOffer> offers, int64_t max_drafts) {
  const auto n_sequences = std::ssize(offers);
  // Steps grow little by little: what a few more rows take tells whether many may pay.
  max_drafts = std::min(max_drafts, 2 * steps_.most_rows() + 2 - n_sequences);
  Sketch sketch = plain(n_sequences);
  const double without = speed(sketch);
  const double row_seconds =
      std::max(steps_.seconds(n_sequences + max_drafts_) - seconds(sketch), 0.0) / max_drafts_ +
      1e-9;
  candidates_.clear();
  order_.clear();
  for (size_t i = 0; i < offers.size(); ++i) {
    push_candidate(offers, i, row_seconds);
  }
  double best = without * kMargin;
  size_t n_best = 0;
  while (!candidates_.empty() && std::ssize(order_) < max_drafts) {
    std::pop_heap(candidates_.begin(), candidates_.end());
    const size_t index = candidates_.back().offer;
    candidates_.pop_back();
    add(sketch, offers[index]);
    order_.push_back(index);
    if (speed(sketch) > best) {
      best = speed(sketch);
      n_best = order_.size();
    }
    push_candidate(offers, index, row_seconds);
  }
  for (; order_.size() > n_best; order_.pop_back()) {
    --offers[order_.back()].n_used;
  }
  best_speed_ = n_best > 0 ? best : without;
}

// Gives everybody another number of guesses than the best, when the account allows for the loss:
// none, one, two, ... in turn.
void DraftPolicy::explore(std::span<DraftOffer> offers, int64_t max_drafts) {
  is_trial_ = false;
  const auto has_offer = [](const DraftOffer& offer) { return offer.n_offered > 0; };
  if (++n_since_trial_ < kTrialGap || !std::ranges::any_of(offers, has_offer)) {
    return;
  }
  chosen_.clear();
  std::ranges::transform(offers, std::back_inserter(chosen_), &DraftOffer::n_used);
  bool is_new = false;
  int64_t n_left = max_drafts;
  Sketch sketch = plain(std::ssize(offers));
  for (DraftOffer& offer : offers) {
    const auto n = static_cast<int>(std::min<int64_t>({trial_, offer.n_offered, n_left}));
    is_new = is_new || n != offer.n_used;
    offer.n_to_come = 1;  // catching up is wholly the trial's
    for (offer.n_used = 0; offer.n_used < n;) {
      add(sketch, offer);
    }
    n_left -= n;
  }
  trial_loss_ = std::max(seconds(sketch) - sketch.n_tokens / best_speed_, 0.0);
  is_trial_ = is_new && trial_loss_ <= account_;
  const bool is_hopeless = trial_loss_ > kAccountSteps * steps_.seconds(std::ssize(offers));
  if (is_trial_ || !is_new || is_hopeless) {
    trial_ = (trial_ + 1) % (max_drafts_ + 1);
  }
  if (is_trial_) {
    n_since_trial_ = 0;
    return;
  }
  for (size_t i = 0; i < offers.size(); ++i) {
    offers[i].n_used = chosen_[i];
  }
}

void DraftPolicy::choose(std::span<DraftOffer> offers, int64_t max_drafts) {
  std::ranges::for_each(offers, [](DraftOffer& offer) { offer.n_used = 0; });
  is_trial_ = false;
  if (!is_known()) {  // the first step tells what one without guesses takes
    return;
  }
  choose_best(offers, max_drafts);
  explore(offers, max_drafts);
}

void DraftPolicy::note_step(int64_t n_rows,
                            double step_seconds,
                            double draft_seconds,
                            int64_t n_tokens) {
  steps_.note(n_rows, step_seconds);
  const double all = step_seconds + draft_seconds;
  const double most = kAccountSteps * steps_.seconds(n_rows);
  if (!has_begun_) {
    has_begun_ = true;
    account_ = kFirstSteps * steps_.seconds(n_rows);
  }
  account_ += kExplored * all;
  if (is_trial_) {
    const double loss = all - static_cast<double>(n_tokens) / best_speed_;
    account_ -= std::clamp(loss, 0.0, kWorstLoss * trial_loss_);
    is_trial_ = false;
  }
  account_ = std::clamp(account_, -most, most);
}

}  // namespace millrace

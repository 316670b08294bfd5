#include "spec/draft_length.h"

#include <algorithm>

namespace millrace {
namespace {

// Until steps of different sizes have been seen: a CPU that decodes waits for memory most of the
// time.
constexpr double kUnknownRowsPerBase = 6;
constexpr double kMaxRowsPerBase = 64;

}  // namespace

void StepCost::note(int64_t n_rows, double seconds) {
  const auto rows = static_cast<double>(n_rows);
  weight_ = weight_ * forget_ + 1;
  rows_ = rows_ * forget_ + rows;
  seconds_ = seconds_ * forget_ + seconds;
  rows_rows_ = rows_rows_ * forget_ + rows * rows;
  rows_seconds_ = rows_seconds_ * forget_ + rows * seconds;
}

double StepCost::rows_per_base() const {
  const double spread = rows_rows_ * weight_ - rows_ * rows_;
  if (spread <= 0.1 * weight_ * weight_) {  // a variance of 0.1 rows: nothing to fit a line to
    return kUnknownRowsPerBase;
  }
  const double per_row = (rows_seconds_ * weight_ - rows_ * seconds_) / spread;
  const double base = (seconds_ - per_row * rows_) / weight_;
  if (per_row <= 0) {
    return kMaxRowsPerBase;
  }
  return std::clamp(base / per_row, 0.0, kMaxRowsPerBase);
}

double StepCost::seconds_per_row() const {
  return weight_ > 0 ? seconds_ / (rows_per_base() * weight_ + rows_) : 0;
}

double StepCost::seconds(int64_t n_rows) const {
  return (rows_per_base() + static_cast<double>(n_rows)) * seconds_per_row();
}

int64_t StepCost::rows_within(double seconds) const {
  constexpr double kMostRows = 1e9;
  const double rows = seconds / std::max(seconds_per_row(), 1 / kMostRows) - rows_per_base();
  return static_cast<int64_t>(std::min(rows, kMostRows));
}

void Acceptance::note(int64_t n_accepted, int64_t n_drafted) {
  for (int64_t i = 0; i < n_accepted; ++i) {
    rate_ += (1 - rate_) * kLearn;
  }
  if (n_accepted < n_drafted) {
    rate_ -= rate_ * kLearn;
  }
}

void Acceptance::note_unused() {
  rate_ += (kInitial - rate_) * kDrift;
}

void DraftCost::note(int64_t n_drafts, double seconds) {
  if (n_drafts > 0) {
    const double each = seconds / static_cast<double>(n_drafts);
    seconds_ += (each - seconds_) * (seconds_ > 0 ? kLearn : 1);
  }
}

void DraftCost::note_unused() {
  seconds_ -= seconds_ * kSink;
}

void choose_draft_lengths(double rows_per_base,
                          int64_t n_rows,
                          int64_t max_drafts,
                          std::span<DraftOffer> offers) {
  double time = rows_per_base + static_cast<double>(n_rows);  // in rows
  double n_tokens = static_cast<double>(n_rows);
  for (DraftOffer& offer : offers) {
    offer.n_used = 0;
  }
  for (int64_t n_drafts = 0; n_drafts < max_drafts; ++n_drafts) {
    DraftOffer* best = nullptr;
    double best_gain = 0;  // tokens for the time of a row
    for (DraftOffer& offer : offers) {
      double chance = offer.rate;
      for (int i = 0; i < offer.n_used; ++i) {
        chance *= offer.rate;
      }
      const double gain = chance / (1 + offer.rows_each);
      if (offer.n_used < offer.n_offered && gain > best_gain) {
        best = &offer;
        best_gain = gain;
      }
    }
    // The step as it is gives n_tokens / time for the time of a row.
    if (best == nullptr || best_gain * time <= n_tokens) {
      return;
    }
    ++best->n_used;
    time += 1 + best->rows_each;
    n_tokens += best_gain * (1 + best->rows_each);
  }
}

}  // namespace millrace

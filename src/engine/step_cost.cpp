#include "engine/step_cost.h"

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

}  // namespace millrace

#include "spec/step_times.h"

#include <algorithm>
#include <bit>

namespace millrace {
namespace {

constexpr double kFollow = 0.02;   // share by which a pass moves the scale
constexpr double kFastest = 0.16;  // at most, when many want the same
constexpr int kManyAlike = 4;
constexpr int64_t kMeanOf = 32;    // passes, of the rows of a size
constexpr double kSettle = 0.005;  // share by which it moves the median of its size
// Rows that take as long as a pass without any where a machine waits for memory.
constexpr double kRowsPerBase = 16;

}  // namespace

int StepTimes::size_of(int64_t n_rows) {
  if (n_rows <= kExact) {
    return static_cast<int>(n_rows) - 1;
  }
  const auto rows = static_cast<uint64_t>(n_rows - 1);
  const auto octave = static_cast<int>(std::bit_width(rows)) - 1;  // 5: 33 to 64 rows
  const int eighth = static_cast<int>(rows >> (octave - 3)) & 7;
  return std::min(kExact + 8 * (octave - 5) + eighth, kSizes - 1);
}

void StepTimes::move_scale(bool is_longer) {
  n_alike_ = is_longer == was_longer_ ? n_alike_ + 1 : 1;
  was_longer_ = is_longer;
  const int n_doublings = std::clamp(n_alike_ - kManyAlike, 0, 3);
  const double factor = 1 + std::min(kFollow * (1 << n_doublings), kFastest);
  scale_ *= is_longer ? factor : 1 / factor;
}

void StepTimes::note(int64_t n_rows, double seconds) {
  if (n_rows <= 0 || seconds <= 0) {
    return;
  }
  const int index = size_of(n_rows);
  Size& size = sizes_[static_cast<size_t>(index)];
  const bool is_longer = seconds > size.median * scale_;
  if (size.n_noted > 0) {
    move_scale(is_longer);
  }
  if (size.n_noted < kFirst) {
    size.first[static_cast<size_t>(size.n_noted)] = seconds / scale_;
    std::array<double, kFirst> sorted = size.first;
    const auto middle = sorted.begin() + size.n_noted / 2;
    std::nth_element(sorted.begin(), middle, sorted.begin() + size.n_noted + 1);
    size.median = *middle;
  } else {
    size.median *= is_longer ? 1 + kSettle : 1 / (1 + kSettle);
  }
  ++size.n_noted;
  size.n_rows += (static_cast<double>(n_rows) - size.n_rows) /
                 static_cast<double>(std::min<int64_t>(size.n_noted, kMeanOf));
  last_known_ = std::max(last_known_, index);
  most_rows_ = std::max(most_rows_, n_rows);
}

double StepTimes::beyond(const Size& size, double n_rows) const {
  return size.median * scale_ * (kRowsPerBase + n_rows) / (kRowsPerBase + size.n_rows);
}

double StepTimes::seconds(int64_t n_rows) const {
  if (n_rows <= 0 || last_known_ < 0) {
    return 0;
  }
  const auto rows = static_cast<double>(n_rows);
  const int index = size_of(n_rows);
  const auto is_known = [&](int at) { return sizes_[static_cast<size_t>(at)].n_noted > 0; };
  const auto rows_of = [&](int at) { return sizes_[static_cast<size_t>(at)].n_rows; };
  int below = index;
  while (below >= 0 && !(is_known(below) && rows_of(below) <= rows)) {
    --below;
  }
  int above = index;
  while (above <= last_known_ && !(is_known(above) && rows_of(above) >= rows)) {
    ++above;
  }
  if (above > last_known_) {
    return beyond(sizes_[static_cast<size_t>(below)], rows);
  }
  const Size& larger = sizes_[static_cast<size_t>(above)];
  if (below < 0) {
    return beyond(larger, rows);
  }
  const Size& smaller = sizes_[static_cast<size_t>(below)];
  const double spread = larger.n_rows - smaller.n_rows;
  const double part = spread > 0 ? (rows - smaller.n_rows) / spread : 0;
  return scale_ * (smaller.median + part * (larger.median - smaller.median));
}

}  // namespace millrace

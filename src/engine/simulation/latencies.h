#pragma once
// Percentiles of any number of times in bounded memory: counts by size, in classes 0.1 % apart. One
// thread.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace millrace {

class Latencies {
 public:
  void add(double seconds) {
    const double at = std::log(std::max(seconds, kLeast) / kLeast) / kLogOfClass;
    ++counts_[std::min(static_cast<size_t>(at), counts_.size() - 1)];
    ++n_;
    largest_ = std::max(largest_, seconds);
  }

  int64_t n() const { return n_; }
  double largest() const { return n_ > 0 ? largest_ : std::numeric_limits<double>::quiet_NaN(); }

  // The smallest value that a share of them does not exceed, to 0.1 %; NaN of none.
  double percentile(double share) const {
    if (n_ == 0) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    const auto rank =
        std::max<int64_t>(static_cast<int64_t>(std::ceil(share * static_cast<double>(n_))), 1);
    int64_t n_below = 0;
    size_t i = 0;
    while (n_below + counts_[i] < rank) {
      n_below += counts_[i++];
    }
    const double middle = kLeast * std::exp((static_cast<double>(i) + 0.5) * kLogOfClass);
    return std::min(middle, largest_);
  }

 private:
  static constexpr double kLeast = 1e-6;  // seconds; what is smaller counts as this
  static constexpr double kLogOfClass = 0.001;
  static constexpr size_t kClasses = 32'000;  // up to e^32 microseconds, two years

  std::vector<int64_t> counts_ = std::vector<int64_t>(kClasses);
  int64_t n_ = 0;
  double largest_ = 0;
};

}  // namespace millrace

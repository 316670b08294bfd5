#pragma once
// How often guesses come true: of one sequence, or of all together. Engine thread.

#include <cmath>
#include <cstdint>

namespace millrace {

class Acceptance {
 public:
  // The first n_right of n_guessed were right, and the one after them, if there is one, was not:
  // what is behind it was not judged.
  void note(int64_t n_right, int64_t n_guessed) {
    for (int64_t i = 0; i < n_right; ++i) {
      note(true);
    }
    if (n_right < n_guessed) {
      note(false);
    }
  }

  // The chance of the next one, given those before it. expected: what it would be of one of which
  // nothing is known; counts less the more is known.
  double rate(double expected) const { return steady_.rate(expected); }

 private:
  // The mean of about the latest n.
  class Mean {
   public:
    explicit Mean(double n) : keep_(1 - 1 / n) {}

    void note(bool is_right) {
      n_ = n_ * keep_ + 1;
      n_right_ = n_right_ * keep_ + (is_right ? 1 : 0);
      weight_of_expected_ *= keep_;
    }
    double rate(double expected) const {
      return (n_right_ + weight_of_expected_ * expected) / (n_ + weight_of_expected_);
    }

    void take(const Mean& other) {
      n_ = other.n_;
      n_right_ = other.n_right_;
      weight_of_expected_ = other.weight_of_expected_;
    }

   private:
    double keep_;
    double n_ = 0;
    double n_right_ = 0;
    double weight_of_expected_ = 3;
  };

  // Many guesses give a steady mean; few tell when the text has changed, and then the many are
  // forgotten.
  void note(bool is_right) {
    steady_.note(is_right);
    quick_.note(is_right);
    constexpr double kChange = 0.3;
    constexpr double kMiddle = 0.5;
    if (std::abs(steady_.rate(kMiddle) - quick_.rate(kMiddle)) > kChange) {
      steady_.take(quick_);
    }
  }

  Mean steady_{80};
  Mean quick_{12};
};

}  // namespace millrace

#pragma once
// What a step takes by its number of rows, as a line. Changes speed only, never text. Engine
// thread.

#include <cstdint>

namespace millrace {

// base + n_rows * per_row, fitted to the latest steps by least squares.
class StepCost {
 public:
  // forget: weight of a step against the one after it.
  explicit StepCost(double forget = 0.98) : forget_(forget) {}

  void note(int64_t n_rows, double seconds);

  // Rows that take as long as a step without any; large when memory is what a step waits for.
  double rows_per_base() const;
  double seconds_per_row() const;  // 0: no step yet
  bool is_known() const { return weight_ > 0; }
  double seconds(int64_t n_rows) const;       // of a step with so many
  int64_t rows_within(double seconds) const;  // below 0: not even one without

 private:
  double forget_;
  double weight_ = 0;
  double rows_ = 0;
  double seconds_ = 0;
  double rows_rows_ = 0;
  double rows_seconds_ = 0;
};

}  // namespace millrace

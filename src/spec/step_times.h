#pragma once
// What a pass takes by its number of rows, whatever curve the times make. Engine thread.

#include <array>
#include <cstdint>

namespace millrace {

// A running median of each size. All sizes share one scale besides, which follows the latest passes
// fast: contexts grow and processors are shared, which makes passes of every size slower alike. So
// a size that has not been seen for a while stays right against the others. Size and scale are
// moved by the same pass, in a fixed proportion, so the one cannot wander off while the other makes
// up for it.
class StepTimes {
 public:
  void note(int64_t n_rows, double seconds);

  bool is_known() const { return last_known_ >= 0; }
  // Of a pass with so many rows. Between sizes that were seen a straight line; beyond them what a
  // machine would take that waits for memory, so that sizes which may be cheap are tried. 0: no
  // rows, or nothing is known.
  double seconds(int64_t n_rows) const;
  int64_t most_rows() const { return most_rows_; }  // that were seen

 private:
  static constexpr int kFirst = 5;   // passes of a size until its median runs
  static constexpr int kExact = 32;  // rows, up to which every number is a size of its own
  static constexpr int kSizes = kExact + 8 * 12;  // then eight to an octave, to 2^17 rows

  struct Size {
    std::array<double, kFirst> first = {};
    int64_t n_noted = 0;
    double n_rows = 0;  // mean
    double median = 0;  // seconds at scale 1
  };

  static int size_of(int64_t n_rows);
  void move_scale(bool is_longer);
  double beyond(const Size& size, double n_rows) const;

  std::array<Size, kSizes> sizes_;
  int last_known_ = -1;  // the largest size that was seen
  int64_t most_rows_ = 0;
  double scale_ = 1;
  int n_alike_ = 0;  // latest passes that were all longer than expected, or all shorter
  bool was_longer_ = false;
};

}  // namespace millrace

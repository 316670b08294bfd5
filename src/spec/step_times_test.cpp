#include "spec/step_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace millrace {
namespace {

TEST(StepTimes, learns_any_curve_through_noise_and_outliers) {
  const auto curve = [](int64_t n) { return 0.01 * std::ceil(static_cast<double>(n) / 4); };
  std::mt19937 random(5);
  StepTimes times;
  EXPECT_FALSE(times.is_known());
  EXPECT_EQ(times.seconds(1), 0);
  for (int i = 0; i < 2'000; ++i) {
    const auto n_rows = static_cast<int64_t>(1 + random() % 12);
    const double noise =
        random() % 20 == 0 ? 30 : 0.95 + 0.001 * static_cast<double>(random() % 100);
    times.note(n_rows, curve(n_rows) * noise);
  }
  for (int64_t n = 1; n <= 12; ++n) {
    EXPECT_NEAR(
        times.seconds(n) / times.seconds(4), curve(n) / curve(4), 0.05 * curve(n) / curve(4))
        << n;
    EXPECT_NEAR(times.seconds(n), curve(n), 0.1 * curve(n)) << n;
  }
}

TEST(StepTimes, draws_lines_between_sizes_and_beyond_them) {
  StepTimes times;
  times.note(2, 0.02);
  EXPECT_EQ(times.seconds(0), 0);
  EXPECT_NEAR(times.seconds(20), 0.04, 1e-9);  // a base of sixteen rows
  EXPECT_LT(times.seconds(1), 0.02);
  EXPECT_GT(times.seconds(1), 0.015);
  times.note(6, 0.10);
  EXPECT_NEAR(times.seconds(4), 0.06, 1e-9);
  times.note(100, 1.00);
  EXPECT_NEAR(times.seconds(53), 0.55, 1e-9);
  times.note(98, 1.00);  // of the same size: the mean of both
  EXPECT_NEAR(times.seconds(99), 1.00, 0.05);
  EXPECT_GT(times.seconds(1'000'000), 1);
  times.note(0, 1);  // no pass
  times.note(3, 0);
  EXPECT_NEAR(times.seconds(3), 0.04, 0.002);
}

// Everything takes twice as long, and only steps of one row tell.
TEST(StepTimes, sizes_that_are_not_seen_follow_those_that_are) {
  StepTimes times;
  for (int i = 0; i < 100; ++i) {
    times.note(1 + i % 2 * 4, i % 2 == 0 ? 0.010 : 0.014);
  }
  for (int i = 0; i < 100; ++i) {
    times.note(1, 0.020);
  }
  EXPECT_NEAR(times.seconds(1), 0.020, 0.001);
  EXPECT_NEAR(times.seconds(5), 0.028, 0.002);
}

}  // namespace
}  // namespace millrace

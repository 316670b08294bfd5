#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace millrace {
namespace {

TEST(StepCost, finds_the_line_behind_noisy_steps_and_follows_it_when_it_moves) {
  std::mt19937 random(3);
  StepCost cost;
  for (const double per_row : {1.0, 4.0}) {
    for (int i = 0; i < 400; ++i) {
      const auto n_rows = static_cast<int64_t>(1 + random() % 9);
      const double noise = 0.9 + 0.2 * static_cast<double>(random() % 1000) / 1000;
      cost.note(n_rows, (20 + per_row * static_cast<double>(n_rows)) * noise);
    }
    EXPECT_NEAR(cost.rows_per_base() * per_row, 20, 5);
  }
}

TEST(StepCost, steps_of_one_size_tell_nothing) {
  StepCost cost;
  const double unknown = cost.rows_per_base();
  for (int i = 0; i < 100; ++i) {
    cost.note(1, 0.02 + 0.001 * (i % 3));
  }
  EXPECT_EQ(cost.rows_per_base(), unknown);
}

}  // namespace
}  // namespace millrace

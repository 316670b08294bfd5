#include "spec/acceptance.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Acceptance, begins_with_what_is_expected_and_follows_what_happens) {
  Acceptance acceptance;
  EXPECT_DOUBLE_EQ(acceptance.rate(0.7), 0.7);
  for (int i = 0; i < 10; ++i) {
    acceptance.note(4, 4);
  }
  EXPECT_GT(acceptance.rate(0), 0.8);
  for (int i = 0; i < 40; ++i) {
    acceptance.note(0, 4);
  }
  EXPECT_LT(acceptance.rate(1), 0.2);
}

TEST(Acceptance, what_is_behind_a_wrong_guess_was_not_judged) {
  Acceptance acceptance;
  for (int i = 0; i < 1'000; ++i) {
    acceptance.note(3, 8);
  }
  EXPECT_NEAR(acceptance.rate(0.5), 0.75, 0.02);
}

}  // namespace
}  // namespace millrace

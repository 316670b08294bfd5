#include "model/rope_angles.h"

#include <gmock/gmock.h>

#include <cmath>

namespace millrace {
namespace {

TEST(RopeAngles, frequencies_fall_from_one_by_powers_of_the_base) {
  const RopeAngles angles({.base = 10000.0}, 8, {});
  EXPECT_THAT(angles.frequencies(),
              testing::ElementsAre(1.0,
                                   testing::DoubleNear(0.1, 1e-15),
                                   testing::DoubleNear(0.01, 1e-16),
                                   testing::DoubleNear(0.001, 1e-17)));
  EXPECT_EQ(angles.gain(), 1.0);
}

TEST(RopeAngles, linear_scaling_and_factors_slow_every_pair) {
  const RopeAngles linear({.scaling = RopeScalingType::kLinear, .factor = 4.0}, 4, {});
  EXPECT_THAT(linear.frequencies(), testing::ElementsAre(0.25, testing::DoubleNear(0.0025, 1e-17)));
  const float factors[] = {1.0f, 8.0f};
  const RopeAngles divided({.has_factors = true}, 4, factors);
  EXPECT_THAT(divided.frequencies(),
              testing::ElementsAre(1.0, testing::DoubleNear(0.00125, 1e-17)));
}

TEST(RopeAngles, yarn_keeps_fast_pairs_interpolates_slow_ones_and_raises_the_gain) {
  RopeSpec rope{.scaling = RopeScalingType::kYarn, .factor = 8.0, .original_context_length = 4096};
  rope.attention_factor = 1.2;
  const RopeAngles angles(rope, 128, {});
  const RopeAngles plain({}, 128, {});
  const auto ratio = [&](size_t pair) {
    return plain.frequencies()[pair] / angles.frequencies()[pair];
  };
  EXPECT_DOUBLE_EQ(ratio(0), 1.0);   // turns 652 times within 4,096 tokens
  EXPECT_DOUBLE_EQ(ratio(20), 1.0);  // 37 times: more than beta_fast
  EXPECT_DOUBLE_EQ(ratio(63), 8.0);  // never closes
  EXPECT_DOUBLE_EQ(ratio(46), 8.0);  // 0.87 times: less than beta_slow
  EXPECT_GT(ratio(33), 1.0);
  EXPECT_LT(ratio(33), 8.0);
  EXPECT_EQ(angles.gain(), 1.2);
}

TEST(RopeAngles, far_positions_are_as_exact_as_near_ones) {
  const RopeAngles angles({.base = 1e6}, 64, {});
  std::vector<float> cosines(32), sines(32);
  constexpr int64_t kPosition = 131071;
  angles.write(kPosition, cosines.data(), sines.data());
  for (int pair = 0; pair < 32; ++pair) {
    const long double angle = kPosition * std::pow(1e6L, -2.0L * pair / 64);
    EXPECT_NEAR(cosines[size_t(pair)], double(std::cos(angle)), 1e-7);
    EXPECT_NEAR(sines[size_t(pair)], double(std::sin(angle)), 1e-7);
  }
}

}  // namespace
}  // namespace millrace

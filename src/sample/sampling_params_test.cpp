#include "sample/sampling_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(SamplingParams, defaults_are_valid) {
  EXPECT_TRUE(validate(SamplingParams{}, 100));
}

TEST(SamplingParams, every_number_is_checked_against_its_range) {
  struct Case {
    float SamplingParams::*field;
    std::vector<float> good;
    std::vector<float> bad;
  };
  const float inf = std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {&SamplingParams::temperature, {0, 1e-7F, 2, 1e6F}, {-0.1F, 2e6F, kNan, inf, -inf}},
      {&SamplingParams::top_p, {0, 1e-4F, 1}, {-0.1F, -1, 1.01F, kNan, inf}},
      {&SamplingParams::min_p, {0, 1}, {-0.01F, 1.01F, kNan}},
      {&SamplingParams::typical_p, {0, 0.1F, 1}, {-0.1F, 1.5F, kNan}},
      {&SamplingParams::repetition_penalty, {0.01F, 0.1F, 100}, {0, -1, 101, kNan, inf}},
      {&SamplingParams::frequency_penalty, {-2, 2}, {-2.1F, 2.1F, kNan}},
      {&SamplingParams::presence_penalty, {-2, 2}, {-2.1F, 2.1F, kNan}},
  };
  for (const Case& c : cases) {
    for (const float value : c.good) {
      SamplingParams params;
      params.*c.field = value;
      EXPECT_TRUE(validate(params, 100)) << value;
    }
    for (const float value : c.bad) {
      SamplingParams params;
      params.*c.field = value;
      const auto checked = validate(params, 100);
      ASSERT_FALSE(checked) << value;
      EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    }
  }
}

TEST(SamplingParams, top_k_may_exceed_the_vocabulary_or_be_off) {
  SamplingParams params;
  params.top_k = 1'000'000;
  EXPECT_TRUE(validate(params, 100));
  params.top_k = -1;
  EXPECT_TRUE(validate(params, 100));
  params.top_k = -2;
  EXPECT_FALSE(validate(params, 100));
}

TEST(SamplingParams, logit_bias_is_checked_for_ids_range_and_repetition) {
  SamplingParams params;
  params.logit_bias = {{0, -100}, {99, 100}};
  EXPECT_TRUE(validate(params, 100));
  for (const std::vector<LogitBias>& bad : std::vector<std::vector<LogitBias>>{
           {{-1, 0}}, {{100, 0}}, {{1, 101}}, {{1, kNan}}, {{1, 0}, {2, 0}, {1, 1}}}) {
    params.logit_bias = bad;
    EXPECT_FALSE(validate(params, 100));
  }
  params.logit_bias.clear();
  for (int i = 0; i <= kMaxLogitBias; ++i) {
    params.logit_bias.push_back({i, 0});
  }
  EXPECT_FALSE(validate(params, 100'000));
}

}  // namespace
}  // namespace millrace

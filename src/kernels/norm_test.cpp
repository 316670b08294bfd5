#include "kernels/norm.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/isa.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

namespace millrace::kernels {
namespace {

std::vector<float> normal_values(size_t n, uint64_t seed, float deviation = 1.0f) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(n);
  for (float& x : values) x = normal(random);
  return values;
}

class RowKernels : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_is_available(GetParam())) {
      GTEST_SKIP() << "this CPU has no " << isa_name(GetParam());
    }
  }
};

TEST_P(RowKernels, residual_norm_equals_its_definition_in_double) {
  for (const int n : {1, 7, 8, 16, 33, 64, 172, 1024, 1025}) {
    SCOPED_TRACE(n);
    const auto x = normal_values(n, 1), delta = normal_values(n, 2), bias = normal_values(n, 3);
    const auto weight = normal_values(n, 4);
    std::vector<float> h(n), y(n);
    residual_norm(GetParam(),
                  {.x = x.data(),
                   .delta = delta.data(),
                   .delta_bias = bias.data(),
                   .weight = weight.data(),
                   .h = h.data(),
                   .y = y.data(),
                   .n = n,
                   .eps = 1e-5f});
    double squares = 0;
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(h[i], x[i] + (delta[i] + bias[i]));
      squares += double(h[i]) * h[i];
    }
    const double scale = 1 / std::sqrt(squares / n + 1e-5);
    for (int i = 0; i < n; ++i) {
      const double want = h[i] * scale * weight[i];
      EXPECT_NEAR(y[i], want, 1e-6 * std::abs(want) + 1e-12);
    }
  }
}

TEST_P(RowKernels, residual_norm_without_delta_or_bias_leaves_them_out) {
  constexpr int kN = 72;
  const auto x = normal_values(kN, 1), zero = std::vector<float>(kN), weight = normal_values(kN, 2);
  std::vector<float> with(kN), without(kN);
  ResidualNorm job{.x = x.data(),
                   .delta = nullptr,
                   .delta_bias = nullptr,
                   .weight = weight.data(),
                   .h = nullptr,
                   .y = without.data(),
                   .n = kN,
                   .eps = 1e-6f};
  residual_norm(GetParam(), job);
  job.delta = zero.data();
  job.y = with.data();
  residual_norm(GetParam(), job);
  EXPECT_EQ(with, without);
}

TEST_P(RowKernels, a_zero_row_is_normalised_to_zero) {
  const std::vector<float> zero(40), weight(40, 2.0f);
  std::vector<float> y(40, 1.0f);
  residual_norm(GetParam(),
                {.x = zero.data(),
                 .delta = nullptr,
                 .delta_bias = nullptr,
                 .weight = weight.data(),
                 .h = nullptr,
                 .y = y.data(),
                 .n = 40,
                 .eps = 1e-5f});
  EXPECT_EQ(y, zero);
}

TEST_P(RowKernels, rotate_head_adds_bias_normalises_turns_and_scales) {
  for (const int d : {2, 8, 24, 64, 80, 128}) {
    for (const bool is_half_split : {false, true}) {
      SCOPED_TRACE(testing::Message() << d << (is_half_split ? " half split" : " neighbours"));
      const auto x = normal_values(d, 1), bias = normal_values(d, 2), weight = normal_values(d, 3);
      std::vector<float> cosines(d / 2), sines(d / 2), turned = x;
      std::vector<double> want(d);
      double squares = 0;
      for (int i = 0; i < d; ++i) squares += std::pow(double(x[i]) + bias[i], 2);
      for (int i = 0; i < d; ++i) {
        want[i] = (double(x[i]) + bias[i]) / std::sqrt(squares / d + 1e-6) * weight[i];
      }
      for (int i = 0; i < d / 2; ++i) {
        cosines[i] = std::cos(0.3f * float(i) + 1);
        sines[i] = std::sin(0.3f * float(i) + 1);
        double& a = want[is_half_split ? i : 2 * i];
        double& b = want[is_half_split ? i + d / 2 : 2 * i + 1];
        const double turned_a = a * cosines[i] - b * sines[i];
        b = (a * sines[i] + b * cosines[i]) * 0.5;
        a = turned_a * 0.5;
      }
      rotate_head(GetParam(),
                  {.x = turned.data(),
                   .bias = bias.data(),
                   .norm_weight = weight.data(),
                   .cosines = cosines.data(),
                   .sines = sines.data(),
                   .head_dim = d,
                   .is_half_split = is_half_split,
                   .eps = 1e-6f,
                   .scale = 0.5f});
      for (int i = 0; i < d; ++i) EXPECT_NEAR(turned[i], want[i], 2e-6) << i;
    }
  }
}

TEST_P(RowKernels, swiglu_equals_its_definition_over_the_whole_range) {
  std::vector<float> gate = normal_values(500, 1, 8.0f);
  const float edges[] = {0.0f, -0.0f, 88.0f, -88.0f, 89.0f, -89.0f, 1e30f, -1e30f, 1e-30f};
  gate.insert(gate.end(), std::begin(edges), std::end(edges));
  const auto up = normal_values(gate.size(), 2);
  std::vector<float> out(gate.size());
  swiglu(GetParam(), gate.data(), up.data(), int64_t(gate.size()), out.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double want = gate[i] / (1 + std::exp(-double(gate[i]))) * up[i];
    EXPECT_NEAR(out[i], want, 1e-6 * std::abs(want) + 1e-7) << gate[i];
  }
}

TEST_P(RowKernels, swiglu_may_overwrite_its_inputs) {
  const auto gate = normal_values(77, 1), up = normal_values(77, 2);
  std::vector<float> out(77), in_place = gate;
  swiglu(GetParam(), gate.data(), up.data(), 77, out.data());
  swiglu(GetParam(), in_place.data(), up.data(), 77, in_place.data());
  EXPECT_EQ(out, in_place);
}

INSTANTIATE_TEST_SUITE_P(Tiers, RowKernels, testing::ValuesIn(kAllIsas), [](const auto& info) {
  std::string name = isa_name(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace millrace::kernels

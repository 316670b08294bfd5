#include "cli/measured_cost.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace millrace {
namespace {

using testing::HasSubstr;

struct Measurement {
  int n_prompt;
  int depth;
  int n_tokens;
};

// What bench would print on a machine that costs exactly this, times some noise.
std::string bench_line(const CostModel& cost,
                       const Measurement& measured,
                       double noise = 1,
                       const char* model = "m") {
  double prefill = 0;
  for (int at = 0; at < measured.n_prompt; ++at) {
    prefill += (at % 256 == 0 ? cost.step : 0) + cost.token + (at + 1) * cost.prompt_attention;
  }
  double decode = 0;
  for (int i = 1; i <= measured.n_tokens; ++i) {
    decode += cost.step + cost.token + (std::max(measured.depth, 1) + i) * cost.decode_attention;
  }
  return fmt::format(
      R"({{"model":"{}","threads":2,"weight_bytes":1048576,"isa":"avx2","kv_type":"bf16","prompt_tokens":{},"depth":{},)"
      R"("tokens":{},"prefill_tokens_per_second":{:.6g},"decode_tokens_per_second":{:.6g}}})"
      "\n",
      model,
      measured.n_prompt,
      measured.depth,
      measured.n_tokens,
      measured.n_prompt == 0 ? 0 : measured.n_prompt / prefill * noise,
      measured.n_tokens == 0 ? 0 : measured.n_tokens / decode / noise);
}

std::string bench_lines(const CostModel& cost, std::vector<Measurement> measured) {
  std::string lines;
  for (const Measurement& one : measured) {
    lines += bench_line(cost, one);
  }
  return lines;
}

constexpr CostModel kCost{
    .step = 0.01, .token = 0.003, .decode_attention = 4e-6, .prompt_attention = 1e-6};

TEST(FitCost, gives_back_the_cost_that_was_measured) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> draw(0.2, 5);
  for (int round = 0; round < 50; ++round) {
    const CostModel cost{.step = 0.01 * draw(random),
                         .token = 0.003 * draw(random),
                         .decode_attention = 4e-6 * draw(random),
                         .prompt_attention = 1e-6 * draw(random)};
    std::string lines = bench_lines(cost, {{512, 0, 64}, {3'000, 3'000, 64}});
    lines += round % 2 == 0 ? "\n" + bench_lines(cost, {{1'500, 700, 1}, {0, 20, 5}}) : "";
    const auto fitted = fit_cost(lines);
    ASSERT_TRUE(fitted) << fitted.error().message;
    EXPECT_NEAR(fitted->cost.step, cost.step, 1e-3 * cost.step);
    EXPECT_NEAR(fitted->cost.token, cost.token, 1e-3 * cost.token);
    EXPECT_NEAR(fitted->cost.decode_attention, cost.decode_attention, 1e-3 * cost.decode_attention);
    EXPECT_NEAR(fitted->cost.prompt_attention, cost.prompt_attention, 1e-3 * cost.prompt_attention);
    EXPECT_EQ(fitted->largest_error.has_value(), round % 2 == 0);  // four equations or more
    EXPECT_LT(fitted->largest_error.value_or(0), 1e-4);
    EXPECT_EQ(fitted->source, "m (1.0 MiB, bf16 KV, 2 threads, avx2)");
  }
}

TEST(FitCost, is_never_below_zero_and_tells_how_far_off_it_is) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> draw(1, 0.3);
  bool has_zero = false;
  for (int round = 0; round < 200; ++round) {
    std::string lines;
    for (const Measurement& one :
         {Measurement{512, 0, 64}, {512, 512, 64}, {1'024, 512, 64}, {1'500, 4'000, 64}}) {
      lines += bench_line(kCost, one, std::clamp(draw(random), 0.3, 3.0));
    }
    const auto fitted = fit_cost(lines);
    ASSERT_TRUE(fitted) << fitted.error().message;
    const CostModel& cost = fitted->cost;
    EXPECT_GE(std::min({cost.step, cost.token, cost.decode_attention, cost.prompt_attention}), 0);
    EXPECT_GT(fitted->largest_error, 0);
    has_zero = has_zero || cost.prompt_attention == 0;
  }
  EXPECT_TRUE(has_zero);
}

TEST(FitCost, says_what_it_needs) {
  const std::string whole = bench_lines(kCost, {{512, 0, 64}, {3'000, 3'000, 64}});
  const struct {
    std::string lines;
    const char* words;
  } cases[] = {
      {"", "got 0 and 0"},
      {bench_lines(kCost, {{512, 0, 64}}),
       "two lengths of prompts (-p) and two depths (-d), got 1"},
      {bench_lines(kCost, {{512, 0, 64}, {512, 9, 64}}), "got 1 and 2"},
      {bench_lines(kCost, {{512, 0, 64}, {600, 0, 64}}), "got 2 and 1"},
      {whole + "{}",
       "line 3: expected what millrace bench MODEL --json prints, with a number threads"},
      {whole.substr(0, whole.find('}')) + R"(,"sequences":3})",
       "line 1: expected a measurement of one sequence, got one of 3"},
      {"x", "line 1: [json]"},
      {whole + bench_line(kCost, {512, 0, 64}, 1, "other"),
       "line 3: expected a measurement of m (1.0 MiB, bf16 KV, 2 threads, avx2), as the lines "
       "before, got "
       "other"},
  };
  for (const auto& [lines, words] : cases) {
    const auto fitted = fit_cost(lines);
    ASSERT_FALSE(fitted) << lines;
    EXPECT_THAT(fitted.error().message, HasSubstr(words));
  }
}

}  // namespace
}  // namespace millrace

#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "sample/reference_sampler.h"

namespace millrace {
namespace {

std::vector<float> random_row(std::mt19937& random, size_t n, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(n);
  for (float& x : row) {
    x = normal(random);
  }
  return row;
}

TokenId draw(Sampler& sampler,
             std::vector<float> row,
             const SamplingParams& params,
             uint64_t seed = 1,
             int64_t position = 0) {
  const auto sampled =
      sampler.sample({.logits = row, .params = &params, .seed = seed, .position = position});
  EXPECT_TRUE(sampled) << sampled.error().message;
  return sampled->token;
}

TEST(Sampler, temperature_zero_takes_the_best_token_and_the_lowest_of_equals) {
  Sampler sampler;
  std::vector<float> row(300, -1);
  row[70] = row[200] = row[290] = 3;
  for (const float temperature : {0.0F, 9e-6F}) {
    EXPECT_EQ(draw(sampler, row, {.temperature = temperature}), 70);
  }
}

TEST(Sampler, tiny_temperature_and_top_p_stay_finite) {
  Sampler sampler;
  std::mt19937 random(1);
  const std::vector<float> row = random_row(random, 1'000, 30);
  const auto best = static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
  EXPECT_EQ(draw(sampler, row, {.temperature = 1e-4F}), best);
  EXPECT_EQ(draw(sampler, row, {.top_p = 1e-4F}), best);
  EXPECT_EQ(draw(sampler, row, {.top_p = 0}), best);
  EXPECT_EQ(draw(sampler, row, {.temperature = 1e-4F, .top_p = 0.5F, .min_p = 0.1F}), best);
}

TEST(Sampler, top_k_keeps_exactly_k_and_the_lower_ids_of_equals) {
  Sampler sampler;
  const std::vector<float> row(500, 1);  // all equal
  const SamplingParams params{.top_k = 3};
  std::map<TokenId, int> counts;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ++counts[draw(sampler, row, params, seed)];
  }
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_TRUE(counts.contains(0) && counts.contains(1) && counts.contains(2));
}

TEST(Sampler, top_p_keeps_the_crossing_token) {
  Sampler sampler;
  std::vector<float> row(200, -50);
  row[10] = std::log(0.6F);
  row[20] = std::log(0.3F);
  row[30] = std::log(0.1F);
  std::map<TokenId, int> counts;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    ++counts[draw(sampler, row, {.top_p = 0.61F}, seed)];
  }
  ASSERT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts[10], 333, 60);  // 0.6 of 0.9
}

TEST(Sampler, a_row_with_nan_or_infinity_is_an_error_and_never_a_token) {
  Sampler sampler;
  const SamplingParams params;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {37, 90}) {
      std::vector<float> row(100, 0);
      row[at] = bad;
      std::vector<float> of_panels(4, 0);
      of_panels[at / 32] = std::numeric_limits<float>::quiet_NaN();
      for (const std::span<const float> maxima : {std::span<float>(), std::span(of_panels)}) {
        const auto sampled =
            sampler.sample({.logits = row, .panel_maxima = maxima, .params = &params});
        ASSERT_FALSE(sampled);
        EXPECT_EQ(sampled.error().code, ErrorCode::kInternal);
        EXPECT_FALSE(sampler.score(row, maxima, 0, 3));
      }
    }
  }
}

TEST(Sampler, mask_and_bans_are_obeyed_and_an_empty_choice_is_an_error) {
  Sampler sampler;
  std::mt19937 random(3);
  const SamplingParams params{.temperature = 5};
  std::vector<uint32_t> mask(4, 0);
  mask[1] = 0b1001;  // 32 and 35
  const TokenId banned[] = {32};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<float> row = random_row(random, 100, 3);
    const auto sampled = sampler.sample(
        {.logits = row, .params = &params, .seed = seed, .mask = mask, .banned = banned});
    ASSERT_TRUE(sampled);
    EXPECT_EQ(sampled->token, 35);
  }
  mask[1] = 0b0001;
  std::vector<float> row = random_row(random, 100, 3);
  EXPECT_FALSE(sampler.sample({.logits = row, .params = &params, .mask = mask, .banned = banned}));
}

TEST(Sampler, penalties_look_at_output_only_but_repetition_at_the_prompt_too) {
  Sampler sampler;
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{1});
  history.push(2);
  history.push(2);
  std::vector<float> row(10, -100);
  row[1] = 5;
  row[2] = 5.5F;
  row[3] = 4.5F;
  const auto best = [&](const SamplingParams& params) {
    std::vector<float> scratch = row;
    return sampler.sample({.logits = scratch, .params = &params, .history = &history})->token;
  };
  EXPECT_EQ(best({.temperature = 0}), 2);
  EXPECT_EQ(best({.temperature = 0, .frequency_penalty = 0.5F}), 1);  // 5.5 - 2 * 0.5 < 5
  EXPECT_EQ(best({.temperature = 0, .presence_penalty = 0.4F}), 2);   // 5.1
  EXPECT_EQ(best({.temperature = 0, .presence_penalty = 0.6F}), 1);
  EXPECT_EQ(best({.temperature = 0, .repetition_penalty = 1.3F}), 3);  // 5 / 1.3, 5.5 / 1.3
}

TEST(Sampler, logprobs_are_those_of_the_model_before_any_shaping) {
  Sampler sampler;
  std::mt19937 random(4);
  const std::vector<float> row = random_row(random, 3'000, 3);
  double sum = 0;
  for (const float x : row) {
    sum += std::exp(double{x});
  }
  SamplingParams params{.temperature = 0.5F, .top_p = 0.9F, .repetition_penalty = 2};
  params.logit_bias = {{1234, 100}};
  TokenHistory history;
  history.push(1234);
  std::vector<float> scratch = row;
  const auto sampled =
      sampler.sample({.logits = scratch, .params = &params, .history = &history, .n_logprobs = 20});
  ASSERT_TRUE(sampled);
  EXPECT_EQ(sampled->token, 1234);
  EXPECT_NEAR(sampled->logprob, row[1234] - std::log(sum), 2e-6);
  ASSERT_EQ(sampled->top.size(), 20U);
  std::vector<TokenId> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(sampled->top[i].token, order[i]);
    EXPECT_NEAR(sampled->top[i].logprob, row[static_cast<size_t>(order[i])] - std::log(sum), 2e-6);
  }
  const auto scored = sampler.score(row, {}, 7, 5);
  ASSERT_TRUE(scored);
  EXPECT_NEAR(scored->logprob, row[7] - std::log(sum), 2e-6);
  EXPECT_EQ(scored->top[0].token, order[0]);
}

SamplingParams random_params(std::mt19937& random, int32_t n_vocab) {
  const auto uniform = [&](float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  };
  SamplingParams params;
  params.temperature = random() % 8 == 0 ? 0 : random() % 4 == 0 ? 1 : uniform(0.05F, 2.5F);
  if (random() % 2 == 0) {
    params.top_k = static_cast<int32_t>(random() % 2 == 0 ? random() % 51 : random() % 2'001) - 1;
  }
  if (random() % 2 == 0) {
    params.top_p = random() % 16 == 0  ? 0
                   : random() % 4 == 0 ? uniform(0.99F, 1.0F)
                                       : uniform(0.01F, 1.0F);
  }
  if (random() % 3 == 0) {
    params.min_p = uniform(0.0F, 0.5F);
  }
  if (random() % 4 == 0) {
    params.typical_p = random() % 8 == 0 ? 0 : uniform(0.05F, 1.0F);
  }
  if (random() % 3 == 0) {
    params.repetition_penalty = uniform(0.5F, 2.0F);
    params.frequency_penalty = uniform(-2.0F, 2.0F);
    params.presence_penalty = uniform(-2.0F, 2.0F);
  }
  for (TokenId i = 0; random() % 2 == 0; ++i) {
    params.logit_bias.push_back(
        {i * 3 + static_cast<TokenId>(random() % 3) % n_vocab, uniform(-10, 10)});
  }
  return params;
}

// What the head says of a row, with rows of its own behind the vocabulary.
std::vector<float> head_maxima(std::mt19937& random, std::vector<float> row) {
  for (size_t n_more = random() % 100; n_more > 0; --n_more) {
    row.push_back(std::normal_distribution<float>(50, 50)(random));
  }
  std::vector<float> maxima;
  for (size_t begin = 0; begin < row.size(); begin += 32) {
    const auto first = row.begin() + static_cast<int64_t>(begin);
    const auto last = row.begin() + static_cast<int64_t>(std::min(row.size(), begin + 32));
    maxima.push_back(*std::max_element(first, last));
  }
  return maxima;
}

bool is_same_logprob(const TopLogprob& a, const TopLogprob& b) {
  return a.token == b.token && a.logprob == b.logprob;
}

TEST(Sampler, equals_the_definition_over_random_rows_and_parameters) {
  std::mt19937 random(5);
  Sampler fast;
  Sampler portable(kernels::Isa::kScalar);
  int n_drawn_beyond_best = 0;
  for (int round = 0; round < 1'500; ++round) {
    const size_t n = 40 + random() % 3'000;
    const float spread = std::array{0.3F, 2.0F, 6.0F, 30.0F}[random() % 4];
    std::vector<float> row = random_row(random, n, spread);
    if (random() % 4 == 0) {  // equals on every boundary
      for (float& x : row) {
        x = std::round(x);
      }
    }
    const SamplingParams params = random_params(random, static_cast<int32_t>(n));
    TokenHistory history;
    for (int i = 0; i < 60; ++i) {
      history.push(static_cast<TokenId>(random() % n));
    }
    std::vector<uint32_t> mask;
    if (random() % 4 == 0) {
      mask.resize((n + 31) / 32);
      for (uint32_t& word : mask) {
        word = random() % 3 == 0 ? 0 : static_cast<uint32_t>(random());
      }
      mask[0] |= 1;
    }
    SampleInput input{.logits = row,
                      .params = &params,
                      .history = &history,
                      .seed = random(),
                      .position = static_cast<int64_t>(random() % 100'000),
                      .mask = mask};
    const ReferenceSampler reference(input);
    const TokenId expected = reference.draw(input.seed, input.position);
    n_drawn_beyond_best += expected != reference.survivors().front() ? 1 : 0;
    input.n_logprobs = static_cast<int>(random() % 4) - 1;
    const std::vector<float> maxima = head_maxima(random, row);
    std::optional<SampledToken> first;
    for (Sampler* sampler : {&fast, &portable}) {
      for (const bool has_maxima : {false, true}) {
        std::vector<float> scratch = row;
        input.logits = scratch;
        input.panel_maxima = has_maxima ? std::span(maxima) : std::span<const float>();
        const auto sampled = sampler->sample(input);
        ASSERT_TRUE(sampled) << sampled.error().message;
        ASSERT_EQ(sampled->token, expected)
            << "round " << round << " n " << n << " temperature " << params.temperature << " top_k "
            << params.top_k << " top_p " << params.top_p << " min_p " << params.min_p << " typical "
            << params.typical_p << (has_maxima ? " with maxima" : "");
        if (first) {
          EXPECT_EQ(sampled->logprob, first->logprob);
          EXPECT_TRUE(std::ranges::equal(sampled->top, first->top, is_same_logprob));
        }
        first = *sampled;
      }
    }
  }
  EXPECT_GT(n_drawn_beyond_best, 500);
}

// Pearson's statistic against its 0.999 quantile (Wilson and Hilferty's approximation).
void expect_chi_square(const std::map<TokenId, int>& counts,
                       const ReferenceSampler& reference,
                       int n_draws) {
  const std::vector<double> p = reference.probabilities();
  double statistic = 0;
  double rest_expected = 0;
  int rest_count = n_draws;
  int degrees = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * n_draws;
    if (expected < 8) {
      rest_expected += expected;
      continue;
    }
    const auto found = counts.find(reference.survivors()[i]);
    const int count = found == counts.end() ? 0 : found->second;
    rest_count -= count;
    statistic += (count - expected) * (count - expected) / expected;
    ++degrees;
  }
  if (rest_expected >= 8) {
    statistic += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++degrees;
  }
  ASSERT_GT(degrees, 3);
  const double k = degrees - 1;
  const double quantile = k * std::pow(1 - 2 / (9 * k) + 3.0902 * std::sqrt(2 / (9 * k)), 3);
  EXPECT_LT(statistic, quantile) << "degrees " << k;
}

TEST(Sampler, draws_follow_the_softmax_with_and_without_filters) {
  constexpr int kDraws = 20'000;
  std::mt19937 random(6);
  const std::vector<float> row = random_row(random, 500, 2);
  Sampler sampler;
  for (const SamplingParams& params :
       {SamplingParams{},
        SamplingParams{.temperature = 0.7F},
        SamplingParams{.temperature = 2.0F},
        SamplingParams{.top_k = 20},
        SamplingParams{.top_p = 0.8F},
        SamplingParams{.temperature = 1.3F, .min_p = 0.05F},
        SamplingParams{.typical_p = 0.9F},
        SamplingParams{.top_k = 40, .top_p = 0.9F, .min_p = 0.01F}}) {
    std::vector<float> scratch = row;
    const ReferenceSampler reference(SampleInput{.logits = scratch, .params = &params});
    std::map<TokenId, int> by_seed;
    std::map<TokenId, int> by_position;
    for (int i = 0; i < kDraws; ++i) {
      ++by_seed[draw(sampler, row, params, static_cast<uint64_t>(i), 5)];
      ++by_position[draw(sampler, row, params, 99, i)];
    }
    expect_chi_square(by_seed, reference, kDraws);
    expect_chi_square(by_position, reference, kDraws);
  }
}

// A long tail of rare tokens must be reachable: coarse noise would never draw it.
TEST(Sampler, rare_tokens_are_drawn_as_often_as_they_should) {
  Sampler sampler;
  std::vector<float> row(20'000, 0);
  row[0] = std::log(20'000.0F * 200);  // the tail holds 1 / 201 of the mass, 2.5e-7 a token
  int n_tail = 0;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    n_tail += draw(sampler, row, {}, seed) != 0 ? 1 : 0;
  }
  EXPECT_NEAR(n_tail, 20'000 / 201.0, 4 * std::sqrt(20'000 / 201.0));
}

}  // namespace
}  // namespace millrace

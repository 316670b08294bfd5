// The first two tokens of an answer, drawn with 20,000 seeds, against the probabilities that the
// model gives: without guesses and with those of every kind. The second token is the one that is
// guessed. Seeds are fixed, so the outcome is the same every time.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "engine/test_engine.h"

namespace millrace {
namespace {

constexpr int kSeeds = 20'000;
// Each with a seed of its own. They prefill once and then decode together, without other prompts
// in between, and steps that compute prompts have no guesses.
constexpr int kChoices = 50;
constexpr int kTopK = 8;
constexpr float kTopP = 0.97F;
constexpr float kTemperature = 0.9F;

using Chances = std::map<TokenId, double>;

Request request() {
  Request request;
  request.prompt = some_prompt(20);
  request.max_tokens = 4;
  request.ignore_eos = true;
  request.sampling.temperature = kTemperature;
  request.sampling.top_k = kTopK;
  request.sampling.top_p = kTopP;
  return request;
}

// What follows the prompt: the raw probabilities at the temperature, then the likeliest kTopK, then
// those of them that make up kTopP.
Chances chances(TestEngine& engine, const std::vector<TokenId>& prompt) {
  Request asked = request();
  asked.prompt = prompt;
  asked.max_tokens = 1;
  asked.n_logprobs = kMaxTopLogprobs;
  const Answer answer = engine.ask(asked);
  std::vector<std::pair<TokenId, double>> best;
  double sum = 0;
  for (int i = 0; i < kTopK; ++i) {
    const TopLogprob& top = answer.top.at(0).at(static_cast<size_t>(i));
    best.emplace_back(top.token, std::exp(static_cast<double>(top.logprob) / kTemperature));
    sum += best.back().second;
  }
  Chances kept;
  double before = 0;
  for (const auto& [token, weight] : best) {
    if (before < kTopP * sum) {
      kept[token] = weight;
      before += weight;
    }
  }
  for (auto& [token, chance] : kept) {
    chance /= before;
  }
  return kept;
}

// How likely so large a value of chi-square is, by the approximation of Wilson and Hilferty (1931).
double p_value(double chi_square, int n_degrees) {
  const double part = 2.0 / (9.0 * n_degrees);
  const double z = (std::cbrt(chi_square / n_degrees) - (1 - part)) / std::sqrt(part);
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

// Pairs of tokens that were seen against those that were to be expected; rare ones count together.
double p_value(const std::map<std::pair<TokenId, TokenId>, int>& seen,
               const std::map<std::pair<TokenId, TokenId>, double>& expected) {
  constexpr double kLeastExpected = 8;
  double chi_square = 0;
  int n_cells = 0;
  double rare_expected = 0;
  int rare_seen = 0;
  const auto add = [&](int n_seen, double n_expected) {
    chi_square += (n_seen - n_expected) * (n_seen - n_expected) / n_expected;
    ++n_cells;
  };
  int n_seen = 0;
  for (const auto& [pair, chance] : expected) {
    const auto found = seen.find(pair);
    const int n = found == seen.end() ? 0 : found->second;
    n_seen += n;
    if (chance * kSeeds < kLeastExpected) {
      rare_expected += chance * kSeeds;
      rare_seen += n;
    } else {
      add(n, chance * kSeeds);
    }
  }
  EXPECT_EQ(n_seen, kSeeds);  // nothing else came
  if (rare_expected >= kLeastExpected) {
    add(rare_seen, rare_expected);
  }
  EXPECT_GT(n_cells, 20);
  return p_value(chi_square, n_cells - 1);
}

class Statistics : public testing::Test {
 protected:
  Statistics()
      : model_([](ModelShape& shape) { shape.matrix_std = 0.05F; }), other_([](ModelShape& shape) {
          shape.matrix_std = 0.05F;
          shape.dtype = DType::kQ4_0;
        }) {
    EngineOptions options;
    options.max_drafts = 0;
    TestEngine plain(model_.path(), options);
    for (const auto& [first, chance] : chances(plain, request().prompt)) {
      std::vector<TokenId> longer = request().prompt;
      longer.push_back(first);
      for (const auto& [second, then] : chances(plain, longer)) {
        expected_[{first, second}] = chance * then;
      }
    }
  }

  static EngineOptions options(int max_drafts, bool has_copies) {
    EngineOptions options;
    options.max_drafts = max_drafts;
    options.copies_drafts = has_copies;
    options.adapts_drafts = false;
    return options;
  }

  // How often each pair came, over all seeds.
  static std::map<std::pair<TokenId, TokenId>, int> draw(TestEngine& rig, const Request& request) {
    std::map<std::pair<TokenId, TokenId>, int> seen;
    for (int seed = 0; seed < kSeeds / kChoices; ++seed) {
      Request asked = request;
      asked.n = kChoices;
      asked.seed = static_cast<uint64_t>(seed);
      for (const auto& [choice, answer] : rig.ask_all(asked)) {
        ++seen[{answer.ids.at(0), answer.ids.at(1)}];
      }
    }
    return seen;
  }

  // Gives what became of guesses.
  EngineStats check(const EngineOptions& options, const std::string& draft_path = {}) {
    TestEngine rig(model_.path(), options, draft_path);
    const double p = p_value(draw(rig, request()), expected_);
    RecordProperty("p", std::to_string(p));
    std::printf("p = %.4f\n", p);
    EXPECT_GT(p, 0.001);
    EXPECT_LT(p, 0.999);  // nor is it too good to be true
    return rig.engine->stats();
  }

  TestModel model_;
  TestModel other_;  // the same weights, rounded
  std::map<std::pair<TokenId, TokenId>, double> expected_;
};

TEST_F(Statistics, draws_without_guesses_follow_the_model) {
  const EngineStats stats = check(options(0, false));
  EXPECT_EQ(stats.accepted_drafts + stats.rejected_drafts, 0);
}

TEST_F(Statistics, draws_with_guesses_copied_from_earlier_answers_follow_the_model) {
  const EngineStats stats = check(options(3, true));
  EXPECT_GT(stats.accepted_drafts, 1'000);
  EXPECT_GT(stats.rejected_drafts, 1'000);
}

TEST_F(Statistics, draws_with_guesses_of_a_draft_model_follow_the_model) {
  const EngineStats stats = check(options(3, false), other_.path());
  EXPECT_GT(stats.accepted_drafts, 1'000);
  EXPECT_GT(stats.rejected_drafts, 1'000);
}

TEST_F(Statistics, draws_with_guesses_of_the_model_itself_follow_it_and_all_are_right) {
  const EngineStats stats = check(options(3, false), model_.path());
  EXPECT_GT(stats.accepted_drafts, 10'000);
  EXPECT_EQ(stats.rejected_drafts, 0);
}

// The measure itself: draws at another temperature fail it.
TEST_F(Statistics, wrong_probabilities_are_noticed) {
  TestEngine rig(model_.path(), options(0, false));
  Request colder = request();
  colder.sampling.temperature = 0.8F * kTemperature;
  EXPECT_LT(p_value(draw(rig, colder), expected_), 0.001);
}

}  // namespace
}  // namespace millrace

#include "sample/token_history.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace millrace {
namespace {

TEST(TokenHistory, counts_prompt_and_output_apart) {
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{5, 7, 5});
  history.push(7);
  history.push(9);
  history.push(7);
  ASSERT_EQ(history.entries().size(), 3U);
  EXPECT_EQ(history.entries()[0].token, 5);
  EXPECT_TRUE(history.entries()[0].is_in_prompt);
  EXPECT_EQ(history.entries()[0].n_output, 0);
  EXPECT_EQ(history.entries()[1].n_output, 2);
  EXPECT_FALSE(history.entries()[2].is_in_prompt);
}

TEST(TokenHistory, equals_a_map_over_random_pushes_and_pops) {
  std::mt19937 random(7);
  TokenHistory history;
  std::map<TokenId, int> counts;
  std::vector<TokenId> pushed;
  for (int i = 0; i < 20'000; ++i) {
    if (!pushed.empty() && random() % 3 == 0) {
      history.pop(pushed.back());
      --counts[pushed.back()];
      pushed.pop_back();
    } else {
      pushed.push_back(static_cast<TokenId>(random() % 5'000 * 31));
      history.push(pushed.back());
      ++counts[pushed.back()];
    }
  }
  ASSERT_EQ(history.entries().size(), counts.size());
  for (const TokenHistory::Entry& entry : history.entries()) {
    EXPECT_EQ(entry.n_output, counts[entry.token]);
  }
}

}  // namespace
}  // namespace millrace

#include "spec/ngram_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<TokenId>;

Tokens propose(const Tokens& tokens, int n = 4) {
  NgramIndex index;
  index.extend(tokens, std::ssize(tokens) - 1);
  Tokens drafts;
  if (const NgramIndex::Match match = index.find(tokens, tokens); match.length > 0) {
    append_follow(tokens, match.end, n, drafts);
  }
  return drafts;
}

TEST(NgramIndex, proposes_what_followed_the_last_three_tokens_before) {
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 1, 2, 3}), ElementsAre(4, 5, 6, 1));
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), ElementsAre(4, 5));
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 0, 2, 3}), IsEmpty());
  EXPECT_THAT(propose({1, 2, 3}), IsEmpty());
  EXPECT_THAT(propose({}), IsEmpty());
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 1, 2, 3}, 0), IsEmpty());
}

TEST(NgramIndex, longest_match_wins_and_the_latest_of_equal_ones) {
  EXPECT_THAT(propose({9, 1, 2, 3, 70, 8, 1, 2, 3, 80, 9, 1, 2, 3}, 1), ElementsAre(70));
  EXPECT_THAT(propose({1, 2, 3, 70, 1, 2, 3, 80, 1, 2, 3}, 1), ElementsAre(80));
}

TEST(NgramIndex, repetition_may_overlap_itself) {
  EXPECT_THAT(propose({5, 5, 5, 5, 5}, 3), ElementsAre(5, 5, 5));
  EXPECT_THAT(propose({1, 2, 1, 2, 1, 2, 1}, 5), ElementsAre(2, 1, 2, 1, 2));
}

// Against a search through everything.
TEST(NgramIndex, finds_what_a_full_search_finds_however_the_tokens_arrive) {
  std::mt19937 random(5);
  int n_found = 0;
  for (int round = 0; round < 200; ++round) {
    NgramIndex index;
    Tokens tokens;
    const uint32_t n_kinds = 2 + random() % 12;
    for (int i = 0; i < 60; ++i) {
      for (uint32_t n = random() % 5; n > 0; --n) {
        tokens.push_back(static_cast<TokenId>(random() % n_kinds));
      }
      const int64_t n_tokens = std::ssize(tokens);
      int64_t best = 2;
      int64_t best_end = 0;
      int n_places = 0;
      for (int64_t end = n_tokens - 1; end >= 3 && n_places < 16; --end) {
        int64_t length = 0;
        while (length < std::min<int64_t>(end, 32) &&
               tokens[static_cast<size_t>(end - 1 - length)] ==
                   tokens[static_cast<size_t>(n_tokens - 1 - length)]) {
          ++length;
        }
        n_places += length >= 3 ? 1 : 0;
        if (length > best) {
          best = length;
          best_end = end;
        }
      }
      index.extend(tokens, n_tokens - 1);
      const NgramIndex::Match match = index.find(tokens, tokens);
      ASSERT_EQ(match.end, best_end) << "round " << round;
      ASSERT_EQ(match.length, best_end > 0 ? best : 0);
      n_found += match.length > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(n_found, 3'000);
}

}  // namespace
}  // namespace millrace

#include "spec/ngram_proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<TokenId>;

Tokens propose(const Tokens& tokens, int n = 4) {
  NgramProposer proposer;
  Tokens drafts;
  proposer.propose(tokens, n, drafts);
  return drafts;
}

TEST(NgramProposer, proposes_what_followed_the_last_three_tokens_before) {
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 1, 2, 3}), ElementsAre(4, 5, 6, 1));
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), ElementsAre(4, 5));
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 0, 2, 3}), IsEmpty());
  EXPECT_THAT(propose({1, 2, 3}), IsEmpty());
  EXPECT_THAT(propose({}), IsEmpty());
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 1, 2, 3}, 0), IsEmpty());
}

TEST(NgramProposer, longest_match_wins_and_the_latest_of_equal_ones) {
  EXPECT_THAT(propose({9, 1, 2, 3, 70, 8, 1, 2, 3, 80, 9, 1, 2, 3}, 1), ElementsAre(70));
  EXPECT_THAT(propose({1, 2, 3, 70, 1, 2, 3, 80, 1, 2, 3}, 1), ElementsAre(80));
}

TEST(NgramProposer, repetition_may_overlap_itself) {
  EXPECT_THAT(propose({5, 5, 5, 5, 5}, 3), ElementsAre(5, 5, 5));
  EXPECT_THAT(propose({1, 2, 1, 2, 1, 2, 1}, 5), ElementsAre(2, 1, 2, 1, 2));
}

// Against a search through everything.
TEST(NgramProposer, finds_what_a_full_search_finds_however_the_tokens_arrive) {
  std::mt19937 random(5);
  int n_found = 0;
  for (int round = 0; round < 200; ++round) {
    NgramProposer proposer;
    Tokens tokens;
    const uint32_t n_kinds = 2 + random() % 12;
    for (int i = 0; i < 60; ++i) {
      for (uint32_t n = random() % 5; n > 0; --n) {
        tokens.push_back(static_cast<TokenId>(random() % n_kinds));
      }
      Tokens drafts;
      proposer.propose(tokens, 5, drafts);
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
      Tokens expected;
      Tokens all = tokens;
      for (int64_t k = 0; best_end > 0 && k < 5; ++k) {
        all.push_back(all[static_cast<size_t>(best_end + k)]);
        expected.push_back(all.back());
      }
      ASSERT_EQ(drafts, expected) << "round " << round;
      n_found += drafts.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(n_found, 3'000);
}

}  // namespace
}  // namespace millrace

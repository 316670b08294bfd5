#include "spec/proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<TokenId>;

Tokens propose(const Tokens& tokens, const AnswerLog* log, int n = 3) {
  Proposer proposer;
  Tokens drafts;
  proposer.propose(tokens, n, log, drafts);
  return drafts;
}

TEST(Proposer, longest_match_wins_and_the_sequence_s_own_of_equal_ones) {
  AnswerLog log;
  log.add(Tokens{9, 1, 2, 3, 40, 41, 42, 43});
  EXPECT_THAT(propose({1, 2, 3}, &log), ElementsAre(40, 41, 42));
  EXPECT_THAT(propose({1, 2, 3, 7, 8, 1, 2, 3}, &log), ElementsAre(7, 8, 1));
  EXPECT_THAT(propose({1, 2, 3, 7, 8, 9, 1, 2, 3}, &log), ElementsAre(40, 41, 42));
  EXPECT_THAT(propose({1, 2, 3, 7, 8, 9, 1, 2, 3}, nullptr), ElementsAre(7, 8, 9));
  EXPECT_THAT(propose({2, 3}, &log), IsEmpty());
}

TEST(AnswerLog, answers_do_not_run_into_each_other) {
  AnswerLog log;
  log.add(Tokens{1, 2, 3, 4});
  log.add(Tokens{5, 6, 7});
  EXPECT_THAT(propose({1, 2, 3}, &log), ElementsAre(4));
  EXPECT_THAT(propose({3, 4, 5}, &log), IsEmpty());
  EXPECT_THAT(propose({2, 3, 4}, &log), IsEmpty());
}

TEST(AnswerLog, is_bounded_and_forgets_the_oldest) {
  AnswerLog log(64);
  for (TokenId first = 0; first < 1'000; first += 10) {
    Tokens answer;
    for (TokenId i = 0; i < 10; ++i) {
      answer.push_back(first + i);
    }
    log.add(answer);
    ASSERT_LE(log.n_tokens(), 64);
    ASSERT_THAT(propose({first, first + 1, first + 2}, &log, 1), ElementsAre(first + 3));
  }
  EXPECT_THAT(propose({0, 1, 2}, &log), IsEmpty());
  EXPECT_THAT(propose({970, 971, 972}, &log, 1), ElementsAre(973));
  log.add(Tokens(100, 5));  // larger than half of it all: not kept
  EXPECT_THAT(propose({5, 5, 5}, &log), ElementsAre());
}

}  // namespace
}  // namespace millrace

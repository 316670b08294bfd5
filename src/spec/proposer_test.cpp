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

TEST(Proposer, follows_an_expected_answer_from_its_first_token_and_finds_back_into_it) {
  const Tokens prompt{5, 6, 7, 8};
  Proposer proposer;
  proposer.expect(prompt, Tokens{20, 21, 22, 23, 24, 25});
  const auto after = [&](Tokens answer, int n = 3) {
    Tokens tokens = prompt;
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    Tokens drafts;
    Proposer fresh = proposer;
    fresh.propose(tokens, n, nullptr, drafts);
    return drafts;
  };
  EXPECT_THAT(after({}), ElementsAre(20, 21, 22));
  EXPECT_THAT(after({20, 21}), ElementsAre(22, 23, 24));
  EXPECT_THAT(after({20, 99}), IsEmpty());  // it went another way
  EXPECT_THAT(after({99, 98, 21, 22, 23}), ElementsAre(24, 25));
  EXPECT_THAT(after({20, 21, 22, 23, 24, 25}), IsEmpty());
}

TEST(Proposer, longer_matches_win_over_the_expected_answer) {
  AnswerLog log;
  log.add(Tokens{5, 6, 7, 8, 60});
  Proposer proposer;
  proposer.expect(Tokens{6, 7, 8}, Tokens{20, 21});
  Tokens drafts;
  proposer.propose(Tokens{1, 5, 6, 7, 8}, 2, &log, drafts);
  EXPECT_THAT(drafts, ElementsAre(60));
  drafts.clear();
  proposer.propose(Tokens{1, 5, 6, 7, 8}, 2, nullptr, drafts);
  EXPECT_THAT(drafts, ElementsAre(20, 21));
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

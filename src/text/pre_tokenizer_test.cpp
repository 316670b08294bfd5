#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(const std::vector<PreTokenizerStep>& steps,
             std::string_view text,
             bool is_first = true) {
  const auto pre_tokenizer = PreTokenizer::create(steps);
  EXPECT_TRUE(pre_tokenizer);
  RegexScratch scratch;
  PieceList list;
  EXPECT_EQ(pre_tokenizer->split(text, 0, is_first, scratch, list), text.size());
  Pieces pieces;
  for (const PieceList::Piece piece : list.pieces) {
    pieces.emplace_back(list.text.substr(piece.begin, piece.end - piece.begin));
  }
  return pieces;
}

PreTokenizerStep pattern_step(std::string pattern,
                              SplitBehavior behavior = SplitBehavior::kIsolated,
                              bool is_inverted = false) {
  PreTokenizerStep step;
  step.pattern = std::move(pattern);
  step.behavior = behavior;
  step.is_inverted = is_inverted;
  return step;
}

// In parts that join to the whole: lookbehind sees across their borders.
TEST(PreTokenizer, long_texts_come_in_parts) {
  std::string text;
  Pieces expected;
  for (int i = 0; i < 50'000; ++i) {
    expected.push_back(i % 3 == 0 ? "ab" : "b");
    text += expected.back();
  }
  const auto pre_tokenizer = PreTokenizer::create({pattern_step("ab|(?<=b)b")});
  ASSERT_TRUE(pre_tokenizer);
  RegexScratch scratch;
  PieceList list;
  Pieces pieces;
  size_t largest = 0;
  for (size_t done = 0; done < text.size();) {
    done = pre_tokenizer->split(text, done, true, scratch, list);
    largest = std::max(largest, list.pieces.size());
    for (const PieceList::Piece piece : list.pieces) {
      pieces.emplace_back(list.text.substr(piece.begin, piece.end - piece.begin));
    }
  }
  EXPECT_EQ(pieces, expected);
  EXPECT_LT(largest, 20'000u);
}

TEST(PreTokenizer, behaviors_place_the_matches) {
  const std::string text = "the-final--countdown";
  const auto with = [&](SplitBehavior behavior) {
    return split({pattern_step("-", behavior)}, text);
  };
  EXPECT_EQ(with(SplitBehavior::kRemoved), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(with(SplitBehavior::kIsolated), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(with(SplitBehavior::kMergedWithPrevious), (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(with(SplitBehavior::kMergedWithNext), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(with(SplitBehavior::kContiguous), (Pieces{"the", "-", "final", "--", "countdown"}));
}

TEST(PreTokenizer, an_inverted_pattern_describes_what_stays) {
  EXPECT_EQ(split({pattern_step("[a-z]+", SplitBehavior::kRemoved, true)}, "ab, cd!"),
            (Pieces{"ab", "cd"}));
}

TEST(PreTokenizer, steps_apply_within_the_pieces_of_the_step_before) {
  // The lookahead of the second step must not see past the piece.
  EXPECT_EQ(split({pattern_step("[0-9]"), pattern_step(R"(\s+(?!\S)|\s+|\w+)")}, "ab  7 c"),
            (Pieces{"ab", "  ", "7", " ", "c"}));
}

TEST(PreTokenizer, empty_matches_cut_and_the_search_goes_on) {
  EXPECT_EQ(split({pattern_step("x*")}, "axxb"), (Pieces{"a", "xx", "b"}));
  EXPECT_EQ(split({pattern_step("(?=b)")}, "abab"), (Pieces{"a", "ba", "b"}));
}

TEST(PreTokenizer, prefix_space_is_put_before_every_piece_without_one) {
  PreTokenizerStep prefix;
  prefix.kind = PreTokenizerStep::Kind::kPrefixSpace;
  EXPECT_EQ(split({pattern_step(","), prefix}, "a, b"), (Pieces{" a", " ,", " b"}));
}

TEST(PreTokenizer, metaspace_prepends_as_its_scheme_says) {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kMetaspace;
  step.replacement = "_";
  using Prepend = PreTokenizerStep::Prepend;
  step.prepend = Prepend::kAlways;
  EXPECT_EQ(split({step}, "a b", false), (Pieces{"_a_b"}));
  EXPECT_EQ(split({step}, " a", false), (Pieces{"_a"}));
  step.prepend = Prepend::kFirst;
  EXPECT_EQ(split({step}, "a b", true), (Pieces{"_a_b"}));
  EXPECT_EQ(split({step}, "a b", false), (Pieces{"a_b"}));
  step.prepend = Prepend::kNever;
  EXPECT_EQ(split({step}, "a b", true), (Pieces{"a_b"}));
}

}  // namespace
}  // namespace millrace

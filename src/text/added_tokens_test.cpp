#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

AddedToken make(TokenId id, std::string text) {
  AddedToken token;
  token.id = id;
  token.text = std::move(text);
  return token;
}

AddedTokens user_defined(std::vector<AddedToken> tokens) {
  const std::vector<TokenType> types(tokens.size(), TokenType::kUserDefined);
  return AddedTokens(std::move(tokens), types);
}

// "[begin,end)=id" of every match.
std::string find_all(const AddedTokens& tokens, std::string_view text) {
  std::string found;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto match = tokens.find(text, at, {});
    if (match.id != kNoToken) {
      found += fmt::format("[{},{})={} ", match.begin, match.end, match.id);
    }
    at = match.end;
  }
  return found;
}

TEST(AddedTokens, the_leftmost_and_then_the_longest_is_found) {
  const AddedTokens tokens =
      user_defined({make(0, "<a"), make(1, "<ab>"), make(2, "b>"), make(3, ">>>>")});
  EXPECT_EQ(find_all(tokens, "x<ab>b>"), "[1,5)=1 [5,7)=2 ");
  EXPECT_EQ(find_all(tokens, "<ab<a"), "[0,2)=0 [3,5)=0 ");
  EXPECT_EQ(find_all(tokens, ">>>"), "");
  EXPECT_EQ(find_all(tokens, "no token"), "");
}

TEST(AddedTokens, white_space_goes_along_where_the_token_wants_it) {
  std::vector<AddedToken> list = {make(0, "L"), make(1, "R")};
  list[0].strips_left = true;
  list[1].strips_right = true;
  const AddedTokens tokens = user_defined(list);
  EXPECT_EQ(find_all(tokens, "a \u3000L b"), "[1,6)=0 ");
  EXPECT_EQ(find_all(tokens, "a R\n\u00A0 b"), "[2,7)=1 ");
  EXPECT_EQ(find_all(tokens, "R L"), "[0,2)=1 [2,3)=0 ");
}

TEST(AddedTokens, a_single_word_has_no_word_characters_around_it) {
  std::vector<AddedToken> list = {make(0, "cat")};
  list[0].is_single_word = true;
  const AddedTokens tokens = user_defined(list);
  EXPECT_EQ(find_all(tokens, "cat concat cats cat_ \u00E9cat (cat)"), "[0,3)=0 [28,31)=0 ");
}

TEST(AddedTokens, unsigned_bytes_and_many_children_are_found) {
  std::vector<AddedToken> list;
  for (TokenId id = 0; id < 256; ++id) {
    list.push_back(make(id, "\xE2\x96" + std::string(1, static_cast<char>(id))));
  }
  const AddedTokens tokens = user_defined(list);
  for (TokenId id = 0; id < 256; ++id) {
    EXPECT_EQ(tokens.find(list[id].text, 0, {}).id, id);
  }
}

TEST(InputRanges, know_what_comes_from_input) {
  InputRanges input;
  input.add(2, 4);
  input.add(4, 6);
  input.add(6, 6);
  input.add(9, 10);
  EXPECT_FALSE(input.overlaps(0, 2));
  EXPECT_TRUE(input.overlaps(0, 3));
  EXPECT_TRUE(input.overlaps(5, 9));
  EXPECT_FALSE(input.overlaps(6, 9));
  EXPECT_FALSE(input.overlaps(10, 99));
  EXPECT_TRUE(input.covers(2, 6));
  EXPECT_FALSE(input.covers(2, 7));
  EXPECT_FALSE(input.covers(1, 3));
}

}  // namespace
}  // namespace millrace

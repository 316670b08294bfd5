#include "text/split_regex.h"

#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include "base/utf8.h"

namespace millrace {
namespace {

bool matches(const SplitRegex& regex, RegexScratch& scratch, char32_t code_point) {
  std::string text;
  append_utf8(text, code_point);
  return regex.find(text, 0, scratch).end == text.size();
}

TEST(SplitRegex, white_space_is_unicode_white_space_for_every_character) {
  RegexScratch scratch;
  const auto space = SplitRegex::compile(R"(\A\s\z)");
  const auto space_in_class = SplitRegex::compile(R"(\A[\s_]\z)");
  const auto no_space = SplitRegex::compile(R"(\A\S\z)");
  const auto no_space_in_class = SplitRegex::compile(R"(\A[\S\r]\z)");
  ASSERT_TRUE(space && space_in_class && no_space && no_space_in_class);
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) {
      continue;
    }
    const bool expected = u_isUWhiteSpace(static_cast<UChar32>(c));
    ASSERT_EQ(matches(*space, scratch, c), expected) << std::hex << unsigned{c};
    ASSERT_EQ(matches(*space_in_class, scratch, c), expected || c == '_');
    ASSERT_EQ(matches(*no_space, scratch, c), !expected);
    ASSERT_EQ(matches(*no_space_in_class, scratch, c), !expected || c == '\r');
  }
}

TEST(SplitRegex, case_is_ignored_for_ascii_letters_alone) {
  RegexScratch scratch;
  const auto regex = SplitRegex::compile("(?i:'s|'ll)");
  ASSERT_TRUE(regex);
  EXPECT_EQ(regex->find("it'S", 0, scratch).begin, 2u);
  EXPECT_EQ(regex->find("we'lL", 0, scratch).end, 5u);
  EXPECT_EQ(regex->find("it'\u017F", 0, scratch).begin, std::string::npos);  // long s
}

TEST(SplitRegex, what_the_dialects_read_differently_is_refused) {
  for (const char* pattern : {R"([a[b]])",
                              R"([a&&b])",
                              R"(\p{N}{1,3}+)",
                              R"(\pL)",
                              R"(\bword)",
                              R"(\h)",
                              R"((?i)a)",
                              R"((?<name>a))",
                              R"([\W])",
                              R"((?i:[ab]))",
                              "[abc",
                              "(",
                              "a)"}) {
    const auto regex = SplitRegex::compile(pattern);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_EQ(regex.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(regex.error().message.find(pattern), std::string::npos) << regex.error().message;
  }
}

TEST(SplitRegex, rewriting_keeps_what_both_dialects_read_alike) {
  EXPECT_EQ(*rewrite_for_pcre2(R"([^\r\n\p{L}]?\p{L}+| ?[a-z\]]*(?!x)|\x{4E00}{2,})"),
            R"([^\r\n\p{L}]?\p{L}+| ?[a-z\]]*(?!x)|\x{4E00}{2,})");
  EXPECT_EQ(*rewrite_for_pcre2("a{,3}"), "a{0,3}");
  EXPECT_EQ(*rewrite_for_pcre2(R"(\u2581)"), R"(\x{2581})");
  EXPECT_EQ(*rewrite_for_pcre2("(?i:a|(?:b))c"), "(?:[aA]|(?:[bB]))c");
}

TEST(SplitRegex, an_escaped_text_matches_itself) {
  RegexScratch scratch;
  const std::string text = "a.b*[c]\\ \n\u2581{2}+";
  const auto regex = SplitRegex::compile(escape_pattern(text));
  ASSERT_TRUE(regex) << regex.error().message;
  const SplitRegex::Match match = regex->find("x" + text + "y", 0, scratch);
  EXPECT_EQ(match.begin, 1u);
  EXPECT_EQ(match.end, 1 + text.size());
}

TEST(SplitRegex, a_pattern_that_explodes_gives_up) {
  RegexScratch scratch;
  const auto regex = SplitRegex::compile("(?:a|a|aa)+\\z");
  ASSERT_TRUE(regex);
  EXPECT_EQ(regex->find(std::string(60, 'a') + "b", 0, scratch).begin, std::string::npos);
}

}  // namespace
}  // namespace millrace

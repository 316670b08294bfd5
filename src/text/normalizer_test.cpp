#include "text/normalizer.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using Kind = NormalizerStep::Kind;

std::string apply(std::vector<NormalizerStep> steps, std::string_view text) {
  const auto normalizer = Normalizer::create(std::move(steps));
  EXPECT_TRUE(normalizer);
  std::string buffer = "left over";
  return std::string(normalizer->apply(text, buffer));
}

TEST(Normalizer, composes_characters) {
  EXPECT_EQ(apply({{Kind::kNfc, "", ""}}, "cafe\u0301"), "caf\u00E9");
  EXPECT_EQ(apply({{Kind::kNfc, "", ""}}, "\uFB01"), "\uFB01");
  EXPECT_EQ(apply({{Kind::kNfkc, "", ""}}, "\uFB01\uFF21"), "fiA");
}

TEST(Normalizer, steps_follow_each_other) {
  EXPECT_EQ(apply({{Kind::kPrepend, "", "_"}, {Kind::kReplace, " ", "_"}}, "a  b"), "_a__b");
  EXPECT_EQ(apply({{Kind::kReplace, "aa", "b"}, {Kind::kReplace, "bb", "c"}}, "aaaaa"), "ca");
}

TEST(Normalizer, an_unchanged_text_is_given_back_itself) {
  const auto normalizer = Normalizer::create({{Kind::kNfc, "", ""}, {Kind::kReplace, "x", "y"}});
  ASSERT_TRUE(normalizer);
  const std::string_view text = "caf\u00E9";
  std::string buffer;
  EXPECT_EQ(normalizer->apply(text, buffer).data(), text.data());
}

TEST(Normalizer, replacing_nothing_is_refused) {
  EXPECT_FALSE(Normalizer::create({{Kind::kReplace, "", "x"}}));
}

}  // namespace
}  // namespace millrace

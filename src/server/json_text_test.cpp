#include "server/json_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/utf8.h"

namespace millrace {
namespace {

std::string float_text(float value) {
  std::string text;
  append_json_float(text, value);
  return text;
}

TEST(JsonText, escapes_what_json_requires) {
  EXPECT_EQ(json_string("a\"b\\c\n\t\r\b\f\x01/\x7f"),
            "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001/\x7f\"");
  EXPECT_EQ(json_string(""), "\"\"");
  EXPECT_EQ(json_string(std::string_view("\0", 1)), "\"\\u0000\"");
  EXPECT_EQ(json_string("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
}

TEST(JsonText, invalid_utf8_becomes_replacement_characters) {
  EXPECT_EQ(json_string("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(json_string("\xE2\x82"), "\"\xEF\xBF\xBD\"");
}

TEST(JsonText, reads_back_as_the_same_text_for_random_bytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 12, '\0');
    for (char& byte : text) {
      byte = static_cast<char>(random() % (random() % 2 == 0 ? 256 : 48));
    }
    const auto parsed = nlohmann::json::parse(json_string(text));
    ASSERT_EQ(parsed.get<std::string>(), replace_invalid_utf8(text));
  }
}

TEST(JsonText, texts_are_cut_between_characters) {
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abc\xC3", 4), "abc\xC3");  // nothing is cut
  std::mt19937 random(7);
  for (int i = 0; i < 5'000; ++i) {
    std::string text;
    std::vector<size_t> ends = {0};
    for (int n = 0; n < 8; ++n) {
      append_utf8(text, std::array{U'a', U'\u00e9', U'\u20ac', U'\U0001F600'}[random() % 4]);
      ends.push_back(text.size());
    }
    const size_t max_bytes = random() % (text.size() + 2);
    const std::string_view cut = cut_text(text, max_bytes);
    EXPECT_TRUE(text.starts_with(cut));
    EXPECT_EQ(cut.size(), *(std::ranges::upper_bound(ends, max_bytes) - 1));
  }
}

TEST(JsonText, floats_are_short_and_finite) {
  EXPECT_EQ(float_text(-0.1F), "-0.1");
  EXPECT_EQ(float_text(-INFINITY), "-9999.0");
  EXPECT_EQ(float_text(NAN), "null");
  EXPECT_EQ(nlohmann::json::parse(float_text(-1.5e-7F)).get<float>(), -1.5e-7F);
}

}  // namespace
}  // namespace millrace

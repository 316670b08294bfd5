#include "server/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

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

TEST(JsonText, floats_are_short_and_finite) {
  EXPECT_EQ(float_text(-0.1F), "-0.1");
  EXPECT_EQ(float_text(-INFINITY), "-9999.0");
  EXPECT_EQ(float_text(NAN), "null");
  EXPECT_EQ(nlohmann::json::parse(float_text(-1.5e-7F)).get<float>(), -1.5e-7F);
}

}  // namespace
}  // namespace millrace

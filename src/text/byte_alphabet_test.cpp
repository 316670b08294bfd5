#include "text/byte_alphabet.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(ByteAlphabet, every_byte_has_its_own_character) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    EXPECT_EQ(bytes_of_spelling(spelling_of_bytes(bytes)), bytes) << byte;
  }
  EXPECT_EQ(spelling_of_bytes(" the\n"), "\u0120the\u010A");
  EXPECT_EQ(bytes_of_spelling("\u0120\u00E9"), " \xE9");
}

TEST(ByteAlphabet, other_characters_have_no_bytes) {
  for (const char* spelling :
       {" ", "\n", "\u2581", "\u0144", "\u00AD", "\xC3", "\x80", "\xC0\x80"}) {
    EXPECT_FALSE(bytes_of_spelling(spelling)) << spelling;
  }
}

}  // namespace
}  // namespace millrace

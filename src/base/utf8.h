#pragma once
// UTF-8 as defined by Unicode 15, section 3.9 (no surrogates, no overlong forms, at most U+10FFFF).

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

struct Utf8Step {
  int n_bytes = 0;          // bytes taken, >= 1 for a non-empty text
  char32_t code_point = 0;  // U+FFFD when is_valid is false
  bool is_valid = false;
  bool is_incomplete = false;  // the text ends inside a sequence that could still become valid
};

// Decodes at the start of a non-empty text. An invalid sequence takes its maximal subpart, so each
// broken sequence becomes one U+FFFD, as the Unicode standard recommends and browsers do.
Utf8Step decode_utf8(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);
bool is_valid_utf8(std::string_view text);

// Every invalid sequence becomes one U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// Length of the incomplete but so far valid sequence at the end of the text: 0 to 3 bytes.
std::size_t incomplete_utf8_tail(std::string_view text);

}  // namespace millrace

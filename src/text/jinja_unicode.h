#pragma once
// Code points, character classes and case mapping of Python's str over UTF-8. Any thread.
// Texts are valid UTF-8: whatever enters a template was checked at the border.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/marked_text.h"

namespace millrace {

size_t count_code_points(std::string_view text);
// Byte offset of the code point with this index; text.size() when there are not so many.
size_t byte_offset(std::string_view text, size_t code_point_index);

bool is_space(char32_t c);      // str.isspace
bool is_printable(char32_t c);  // str.isprintable
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_alnum(char32_t c);
bool is_word(char32_t c);  // \w of Python's re
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);

enum class CaseMapping { kLower, kUpper, kTitle, kCapitalize, kSwap, kFold };
// Python's full mappings; each marked and unmarked stretch keeps its mark.
MarkedText map_case(const MarkedText& text, CaseMapping mapping);

// Byte ranges [begin, end) left after stripping whitespace (chars == nullptr) or these characters.
enum class StripSide { kLeft, kRight, kBoth };
std::pair<size_t, size_t> strip_range(std::string_view text,
                                      StripSide side,
                                      const std::string_view* characters);

// Decodes text[at], which must be inside; *n_bytes receives the length.
char32_t code_point_at(std::string_view text, size_t at, size_t* n_bytes);
// Start of the code point that ends at this byte offset > 0.
size_t previous_code_point(std::string_view text, size_t end);

}  // namespace millrace

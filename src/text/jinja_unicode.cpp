#include "text/jinja_unicode.h"

#include <unicode/locid.h>
#include <unicode/ucasemap.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "base/utf8.h"

namespace millrace {
namespace {

UChar32 icu(char32_t c) {
  return static_cast<UChar32>(c);
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

bool is_cased(char32_t c) {
  return is_lower(c) || is_upper(c) || is_title(c);
}

std::string from_icu(const icu::UnicodeString& text) {
  std::string utf8;
  text.toUTF8String(utf8);
  return utf8;
}

icu::UnicodeString to_icu(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string lower(std::string_view text) {
  if (is_ascii(text)) {
    std::string out(text);
    for (char& c : out) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    return out;
  }
  return from_icu(to_icu(text).toLower(icu::Locale::getRoot()));
}

std::string upper(std::string_view text) {
  if (is_ascii(text)) {
    std::string out(text);
    for (char& c : out) {
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    }
    return out;
  }
  return from_icu(to_icu(text).toUpper(icu::Locale::getRoot()));
}

std::string titlecase_character(std::string_view character) {
  if (is_ascii(character)) return upper(character);
  return from_icu(
      to_icu(character).toTitle(nullptr, icu::Locale::getRoot(), U_TITLECASE_NO_BREAK_ADJUSTMENT));
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (size_t at = 0, n = 0; at < text.size(); at += n) {
    const char32_t c = code_point_at(text, at, &n);
    const std::string_view character = text.substr(at, n);
    out += is_upper(c) ? lower(character) : is_lower(c) ? upper(character) : std::string(character);
  }
  return out;
}

// str.title: a cased letter after an uncased one starts a word.
std::string title(std::string_view text, bool* after_cased) {
  std::string out;
  for (size_t at = 0, n = 0; at < text.size(); at += n) {
    const char32_t c = code_point_at(text, at, &n);
    const std::string_view character = text.substr(at, n);
    out += *after_cased ? lower(character) : titlecase_character(character);
    *after_cased = is_cased(c);
  }
  return out;
}

std::string capitalize(std::string_view text, bool* is_first) {
  if (text.empty()) return {};
  size_t n = 0;
  if (*is_first) code_point_at(text, 0, &n);
  *is_first = false;
  return (n > 0 ? titlecase_character(text.substr(0, n)) : std::string()) + lower(text.substr(n));
}

}  // namespace

char32_t code_point_at(std::string_view text, size_t at, size_t* n_bytes) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    *n_bytes = 1;
    return byte;
  }
  const Utf8Step step = decode_utf8(text.substr(at));
  *n_bytes = static_cast<size_t>(step.n_bytes);
  return step.code_point;
}

size_t previous_code_point(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && is_continuation(text[at])) --at;
  return at;
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

size_t byte_offset(std::string_view text, size_t code_point_index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (is_continuation(text[at])) continue;
    if (code_point_index == 0) break;
    --code_point_index;
  }
  return at;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c != 0x7F;
  switch (u_charType(icu(c))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  return (U_GET_GC_MASK(icu(c)) & U_GC_L_MASK) != 0;
}
bool is_decimal(char32_t c) {
  return u_charType(icu(c)) == U_DECIMAL_DIGIT_NUMBER;
}
bool is_digit(char32_t c) {
  const int type = u_getIntPropertyValue(icu(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool is_numeric(char32_t c) {
  return u_getIntPropertyValue(icu(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}
bool is_alnum(char32_t c) {
  return is_alpha(c) || is_numeric(c);
}
bool is_word(char32_t c) {
  return c == '_' || is_alnum(c);
}
bool is_lower(char32_t c) {
  return u_hasBinaryProperty(icu(c), UCHAR_LOWERCASE) != 0;
}
bool is_upper(char32_t c) {
  return u_hasBinaryProperty(icu(c), UCHAR_UPPERCASE) != 0;
}
bool is_title(char32_t c) {
  return u_charType(icu(c)) == U_TITLECASE_LETTER;
}

MarkedText map_case(const MarkedText& text, CaseMapping mapping) {
  MarkedText out;
  bool after_cased = false;
  bool is_first = true;
  for (const TextPiece& piece : text.pieces()) {
    std::string mapped;
    switch (mapping) {
      case CaseMapping::kLower:
        mapped = lower(piece.text);
        break;
      case CaseMapping::kUpper:
        mapped = upper(piece.text);
        break;
      case CaseMapping::kTitle:
        mapped = title(piece.text, &after_cased);
        break;
      case CaseMapping::kCapitalize:
        mapped = capitalize(piece.text, &is_first);
        break;
      case CaseMapping::kSwap:
        mapped = swap_case(piece.text);
        break;
      case CaseMapping::kFold:
        mapped = from_icu(to_icu(piece.text).foldCase());
        break;
    }
    out.append(mapped, piece.is_input);
  }
  return out;
}

std::pair<size_t, size_t> strip_range(std::string_view text,
                                      StripSide side,
                                      const std::string_view* characters) {
  std::u32string set;
  for (size_t at = 0, n = 0; characters != nullptr && at < characters->size(); at += n) {
    set += code_point_at(*characters, at, &n);
  }
  const auto is_stripped = [&](char32_t c) {
    return characters == nullptr ? is_space(c) : set.find(c) != std::u32string::npos;
  };
  size_t begin = 0;
  size_t end = text.size();
  size_t n = 0;
  while (side != StripSide::kRight && begin < end && is_stripped(code_point_at(text, begin, &n))) {
    begin += n;
  }
  while (side != StripSide::kLeft && end > begin) {
    const size_t last = previous_code_point(text, end);
    if (!is_stripped(code_point_at(text, last, &n))) break;
    end = last;
  }
  return {begin, end};
}

}  // namespace millrace

#include "server/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/utf8.h"

namespace millrace {
namespace {

// 0: stands for itself; 'u': needs \u00XX; else the letter after the backslash.
char escape_letter(unsigned char c) {
  switch (c) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    default:
      return c < 0x20 ? 'u' : '\0';
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t start = 0;  // of the bytes not copied yet
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      const Utf8Step step = decode_utf8(text.substr(i));
      if (!step.is_valid) {
        out.append(text, start, i - start);
        out += "\xEF\xBF\xBD";
        start = i + static_cast<size_t>(step.n_bytes);
      }
      i += static_cast<size_t>(step.n_bytes);
      continue;
    }
    if (const char letter = escape_letter(byte); letter != '\0') {
      out.append(text, start, i - start);
      out += '\\';
      out += letter;
      if (letter == 'u') {
        fmt::format_to(std::back_inserter(out), "{:04x}", byte);
      }
      start = i + 1;
    }
    ++i;
  }
  out.append(text, start);
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string_view cut_text(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return text;
  }
  const std::string_view begin = text.substr(0, max_bytes);
  return begin.substr(0, begin.size() - incomplete_utf8_tail(begin));
}

void append_json_float(std::string& out, float value) {
  if (std::isnan(value)) {
    out += "null";
  } else if (std::isinf(value)) {
    out += value > 0 ? "9999.0" : "-9999.0";
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

}  // namespace millrace

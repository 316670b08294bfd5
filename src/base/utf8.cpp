#include "base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace millrace {
namespace {

// Length by lead byte and the allowed range of the second byte (Unicode table 3-7).
struct Lead {
  int n_bytes;
  unsigned char second_low;
  unsigned char second_high;
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {2, 0x80, 0xBF};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    const unsigned char low = byte == 0xE0 ? 0xA0 : 0x80;
    const unsigned char high = byte == 0xED ? 0x9F : 0xBF;
    return {3, low, high};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    const unsigned char low = byte == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = byte == 0xF4 ? 0x8F : 0xBF;
    return {4, low, high};
  }
  return {0, 0, 0};
}

// The number of bytes below 0x80 at the start, to a multiple of 8: most text is skipped so.
std::size_t ascii_prefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  std::size_t n = 0;
  for (uint64_t word = 0; n + sizeof(word) <= text.size(); n += sizeof(word)) {
    std::memcpy(&word, text.data() + n, sizeof(word));
    if ((word & kHighBits) != 0) {
      break;
    }
  }
  return n;
}

}  // namespace

Utf8Step decode_utf8(std::string_view text) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte_at(0);
  if (first < 0x80) {
    return {1, first, true, false};
  }
  const Lead lead = lead_of(first);
  if (lead.n_bytes == 0) {
    return {1, 0xFFFD, false, false};
  }
  char32_t code_point = first & (0x7Fu >> lead.n_bytes);
  for (int i = 1; i < lead.n_bytes; ++i) {
    if (static_cast<std::size_t>(i) == text.size()) {
      return {i, 0xFFFD, false, true};
    }
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (byte_at(i) < low || byte_at(i) > high) {
      return {i, 0xFFFD, false, false};
    }
    code_point = code_point << 6 | (byte_at(i) & 0x3Fu);
  }
  return {lead.n_bytes, code_point, true, false};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  while (true) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) {
      return true;
    }
    const Utf8Step step = decode_utf8(text);
    if (!step.is_valid) {
      return false;
    }
    text.remove_prefix(step.n_bytes);
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    if (step.is_valid) {
      out.append(text.substr(0, step.n_bytes));
    } else {
      append_utf8(out, 0xFFFD);
    }
    text.remove_prefix(step.n_bytes);
  }
  return out;
}

std::size_t incomplete_utf8_tail(std::string_view text) {
  const std::size_t longest = std::min<std::size_t>(3, text.size());
  for (std::size_t n = longest; n > 0; --n) {
    const std::string_view tail = text.substr(text.size() - n);
    const Utf8Step step = decode_utf8(tail);
    if (step.is_incomplete && static_cast<std::size_t>(step.n_bytes) == n) {
      return n;
    }
  }
  return 0;
}

}  // namespace millrace

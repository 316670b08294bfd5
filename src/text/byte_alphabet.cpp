#include "text/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace millrace {
namespace {

// Printable Latin-1 bytes stand for themselves, the 68 others for U+0100 upwards in byte order.
constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kNoByte = -1;
constexpr int kAlphabetEnd = 0x100 + 68;

constexpr std::array<char16_t, 256> make_characters() {
  std::array<char16_t, 256> characters{};
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    characters[byte] = is_printable(byte) ? static_cast<char16_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<char16_t, 256> kCharacterOfByte = make_characters();

constexpr std::array<int16_t, kAlphabetEnd> make_bytes() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (auto& byte : bytes) {
    byte = kNoByte;
  }
  for (int byte = 0; byte < 256; ++byte) {
    bytes[kCharacterOfByte[byte]] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<int16_t, kAlphabetEnd> kByteOfCharacter = make_bytes();

}  // namespace

// Loading a vocabulary calls this half a million times. Every character of the alphabet has one or
// two bytes.
std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes(spelling.size(), '\0');
  std::size_t n_bytes = 0;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    unsigned code_point = static_cast<unsigned char>(spelling[i]);
    if (code_point >= 0x80) {
      const bool is_two = code_point >= 0xC2 && code_point <= 0xDF && i + 1 < spelling.size() &&
                          (spelling[i + 1] & 0xC0) == 0x80;
      if (!is_two) {
        return std::nullopt;
      }
      code_point = (code_point & 0x1F) << 6 | (spelling[++i] & 0x3F);
    }
    if (code_point >= kAlphabetEnd || kByteOfCharacter[code_point] == kNoByte) {
      return std::nullopt;
    }
    bytes[n_bytes++] = static_cast<char>(kByteOfCharacter[code_point]);
  }
  bytes.resize(n_bytes);
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string spelling;
  spelling.reserve(bytes.size());
  for (const char byte : bytes) {
    append_utf8(spelling, kCharacterOfByte[static_cast<unsigned char>(byte)]);
  }
  return spelling;
}

}  // namespace millrace

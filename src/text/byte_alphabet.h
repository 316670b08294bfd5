#pragma once
// GPT-2's printable spelling of bytes, used by byte-level BPE vocabularies: "Ġthe" is " the".
// Pure functions, any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// The bytes a spelling stands for; nothing when a character is not of the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

// The spelling of bytes, the inverse.
std::string spelling_of_bytes(std::string_view bytes);

}  // namespace millrace

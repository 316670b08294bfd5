#pragma once
// Writing JSON text by hand, for what is written once a token. Pure functions, any thread.

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

// Appends text with quotes and escapes; invalid UTF-8 becomes U+FFFD, so the result always parses.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);

// The beginning of a text: at most so many bytes, and no part of a character at its end.
std::string_view cut_text(std::string_view text, size_t max_bytes);

// Shortest digits that read back as the same float. JSON has no infinities: they become +-9999,
// the value other servers send for an impossible token; NaN becomes null.
void append_json_float(std::string& out, float value);

}  // namespace millrace

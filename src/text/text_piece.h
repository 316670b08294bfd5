#pragma once
// A stretch of prompt text with its origin. Plain data, any thread.

#include <string>

namespace millrace {

// is_input: came from a request (message content, tool schema), so control tokens spelled in it
// stay plain text. Scaffolding of the chat template has is_input == false.
struct TextPiece {
  std::string text;
  bool is_input = false;
  bool operator==(const TextPiece&) const = default;
};

}  // namespace millrace

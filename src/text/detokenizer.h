#pragma once
// Token ids to text, one id at a time, for one sequence. Not thread-safe; the Tokenizer must live.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace millrace {

class Tokenizer;

// What push and flush return, put together, equals Tokenizer::decode of all ids pushed. Every
// returned string is valid UTF-8: bytes of an incomplete character wait inside.
class Detokenizer {
 public:
  // prompt_tail: the last ids before the first push (4 are enough, more do no harm). Nothing of
  // them is returned, but a character begun in them can be completed, and when they hold text the
  // sequence has begun, so no leading space is dropped.
  explicit Detokenizer(const Tokenizer& tokenizer,
                       std::span<const TokenId> prompt_tail = {},
                       bool show_control = false);

  std::string push(TokenId id);
  // The same, but a control token gives its spelling: it came from text that spelled it.
  std::string push_spelled(TokenId id);

  // The end of the sequence: a held incomplete character becomes U+FFFD.
  std::string flush();

 private:
  std::string_view bytes_of(TokenId id, bool shows_control) const;
  std::string push_bytes(std::string_view bytes);
  std::string take(std::size_t n_bytes);  // the first bytes of pending_ as text

  const Tokenizer* tokenizer_;
  std::string pending_;             // up to 3 bytes of a character that may still become whole
  std::size_t n_prompt_bytes_ = 0;  // how many of them belong to the prompt
  bool strips_space_;               // the next byte is the first of the sequence and may be dropped
  bool shows_control_;
};

}  // namespace millrace

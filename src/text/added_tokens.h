#pragma once
// Cuts a text at its added tokens, and decides which of them input may spell. Immutable, any
// thread.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "text/added_token_trie.h"
#include "text/tokenizer_spec.h"

namespace millrace {

// Ranges of a text that came from a request, ascending, not empty, not touching.
class InputRanges {
 public:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

  // Ranges are added in order.
  void add(std::size_t begin, std::size_t end);
  // Does a byte of [begin, end) come from input?
  bool overlaps(std::size_t begin, std::size_t end) const;
  // Does every byte of [begin, end) come from input?
  bool covers(std::size_t begin, std::size_t end) const;

 private:
  const Range* first_ending_after(std::size_t at) const;

  std::vector<Range> ranges_;
};

class AddedTokens {
 public:
  // types: of all tokens of the vocabulary, to know the control tokens.
  AddedTokens(std::vector<AddedToken> tokens, std::span<const TokenType> types);

  struct Match {
    std::size_t begin;  // text.size() when there is none
    std::size_t end;
    TokenId id = kNoToken;
  };

  // The first added token at or after `from`: leftmost, then longest. White space that the token
  // takes along is part of the match. A control token is found only outside input; another token
  // only where it does not cut into a control token outside input.
  Match find(std::string_view text, std::size_t from, const InputRanges& input) const;

  bool is_empty() const { return trie_.is_empty(); }

 private:
  struct Entry {
    AddedToken token;
    bool is_control;
  };

  bool is_allowed(const Entry& entry,
                  std::string_view text,
                  std::size_t begin,
                  std::size_t end,
                  const InputRanges& input) const;
  bool cuts_control(std::string_view text,
                    std::size_t begin,
                    std::size_t end,
                    const InputRanges& input) const;

  std::vector<Entry> entries_;
  AddedTokenTrie trie_;
};

}  // namespace millrace

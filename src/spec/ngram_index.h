#pragma once
// Finds where the end of some tokens has occurred before: the match finder of LZ77 compressors, and
// the heart of prompt lookup (Saxena 2023). Engine thread.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace millrace {

class NgramIndex {
 public:
  static constexpr int kMinMatch = 3;   // tokens; shorter repetitions say little
  static constexpr int kMaxMatch = 32;  // compared

  // What follows a match begins at end. length 0: there is none.
  struct Match {
    int64_t end = 0;
    int64_t length = 0;
  };

  // Adds the places in [0, n) that are not there yet. tokens: those of before, and perhaps more.
  void extend(std::span<const TokenId> tokens, int64_t n);

  // The longest match of the end of query that ends at a place of tokens, the latest of several. Of
  // places that share the last kMinMatch tokens, looks at the latest few.
  Match find(std::span<const TokenId> tokens, std::span<const TokenId> query) const;

  void clear();

  // Memory of n places, at most: two tables of a power of two.
  static constexpr int64_t bytes_for(int64_t n) {
    return 2 * int64_t{sizeof(uint32_t)} * std::max(2 * n, kMinPlaces);
  }

 private:
  static constexpr int kMaxCandidates = 16;
  static constexpr int64_t kMinPlaces = 512;

  static uint32_t hash_of(const TokenId* last);
  size_t slot_of(const TokenId* last) const { return hash_of(last) & (latest_.size() - 1); }

  // A place is the number of tokens up to and with the last of kMinMatch; 0 is none.
  std::vector<uint32_t> latest_;    // by hash; a power of two
  std::vector<uint32_t> previous_;  // by place: the place before with the same hash
};

// Appends the n tokens that follow tokens[0, end), stopping before kNoToken. The copy may run into
// itself, as in LZ77: a repetition goes on for ever.
void append_follow(std::span<const TokenId> tokens,
                   int64_t end,
                   int n,
                   std::vector<TokenId>& drafts);

}  // namespace millrace

#pragma once
// Drafts from what a sequence has already seen: what followed the last time that the end of its
// tokens occurred in it. Prompt lookup (Saxena 2023), with the match finder of LZ77 compressors.
// One sequence, engine thread.

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace millrace {

class NgramProposer {
 public:
  static constexpr int kMinMatch = 3;  // tokens; shorter repetitions say little

  // Appends at most n tokens that may follow. tokens: all of the sequence's, which only ever grow.
  // Of the earlier places where the last kMinMatch tokens or more occur, takes the one with the
  // longest match, the latest of several.
  void propose(std::span<const TokenId> tokens, int n, std::vector<TokenId>& drafts);

 private:
  static constexpr int kMaxMatch = 32;       // tokens compared
  static constexpr int kMaxCandidates = 16;  // places looked at

  static uint32_t hash_of(const TokenId* last_of_three);
  void index(std::span<const TokenId> tokens);
  void rebuild(std::span<const TokenId> tokens);
  void insert(std::span<const TokenId> tokens, int64_t end);

  // A place is the number of tokens up to and with its kMinMatch-th; 0 is none.
  std::vector<uint32_t> latest_;    // by hash; a power of two
  std::vector<uint32_t> previous_;  // by place: the place before with the same hash
};

}  // namespace millrace

#pragma once
// Drafts that cost no model: what followed when the same tokens came before, in the sequence itself
// or in answers that the server gave earlier. Engine thread.

#include <cstdint>
#include <span>
#include <vector>

#include "spec/ngram_index.h"

namespace millrace {

// The latest answers, bounded: the older half goes when the newer one is full.
class AnswerLog {
 public:
  static constexpr int64_t kMaxTokens = int64_t{1} << 18;

  explicit AnswerLog(int64_t max_tokens = kMaxTokens) : max_tokens_(max_tokens) {}

  void add(std::span<const TokenId> answer);

  // Appends at most n tokens that followed the longest match of more than longer_than tokens; false
  // if there is none.
  bool propose(std::span<const TokenId> tokens,
               int n,
               int64_t longer_than,
               std::vector<TokenId>& drafts) const;
  int64_t n_tokens() const { return newer_.n_tokens() + older_.n_tokens(); }

  // Memory of two full halves, at most.
  static constexpr int64_t bytes_for(int64_t max_tokens = kMaxTokens) {
    return 2 * (max_tokens / 2 * int64_t{sizeof(TokenId)} + NgramIndex::bytes_for(max_tokens / 2));
  }

 private:
  struct Half {
    std::vector<TokenId> tokens;  // answers, kNoToken behind each
    NgramIndex index;

    int64_t n_tokens() const { return static_cast<int64_t>(tokens.size()); }
  };

  int64_t max_tokens_;
  Half newer_;
  Half older_;
};

// One sequence's.
class Proposer {
 public:
  // What the client expects of the answer to a prompt, tokens of a text: once, before anything is
  // proposed.
  void expect(std::span<const TokenId> prompt, std::span<const TokenId> answer);

  // Appends at most n tokens that may follow tokens: all of the sequence's, which only ever grow.
  // The longest match wins; of equal ones the expected answer's, then the sequence's own. log may
  // be null.
  void propose(std::span<const TokenId> tokens,
               int n,
               const AnswerLog* log,
               std::vector<TokenId>& drafts);

 private:
  NgramIndex index_;
  std::vector<TokenId> expected_;  // the end of the prompt, by which its beginning is found; answer
  NgramIndex expected_index_;
};

}  // namespace millrace

#pragma once
// Which tokens a sequence has seen and how often it wrote them: what penalties need. Owned by one
// sequence, engine thread; workers read it while they sample.

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace millrace {

class TokenHistory {
 public:
  // Twice what is filled of the entries, four places of the index.
  static constexpr int kMaxBytesPerToken = 2 * 12 + 4 * 4;

  struct Entry {
    TokenId token = kNoToken;
    bool is_in_prompt = false;
    int32_t n_output = 0;  // occurrences in the output
  };

  void reserve(size_t n_tokens);  // distinct ones, without allocating
  void add_prompt(std::span<const TokenId> tokens);
  void push(TokenId token);  // the output grew by one token
  void pop(TokenId token);   // takes the last push(token) back: a rejected draft

  // Every distinct token seen, in order of first appearance; after pop() an entry may be empty
  // (not in the prompt, n_output 0).
  std::span<const Entry> entries() const { return entries_; }

 private:
  Entry& find_or_insert(TokenId token);
  void set_slots(size_t n);
  size_t slot_of(TokenId token) const;

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // open addressing, entry index + 1, size a power of two
};

}  // namespace millrace

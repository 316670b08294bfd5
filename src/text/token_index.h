#pragma once
// Strings by token id in one allocation, and the way back from bytes to the id. Immutable once
// built, any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace millrace {

// A hash of a short byte string; fixed for the life of the process, not for storage.
uint64_t hash_bytes(std::string_view bytes);

class TokenStrings {
 public:
  void append(std::string_view text) {
    arena_.append(text);
    ends_.push_back(arena_.size());
  }
  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  // Empty outside 0 .. size() - 1.
  std::string_view operator[](TokenId id) const {
    if (id < 0 || id >= size()) {
      return {};
    }
    const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(arena_).substr(begin, ends_[id] - begin);
  }

 private:
  std::string arena_;
  std::vector<std::size_t> ends_;
};

// Open addressing over the ids of a TokenStrings, which has to stay in place.
class TokenIndex {
 public:
  // Where several ids have the same bytes the first keeps them. Empty strings are not entered.
  explicit TokenIndex(const TokenStrings& strings);

  TokenId find(std::string_view bytes) const;  // kNoToken when there is none

 private:
  struct Slot {
    uint32_t tag = 0;  // the upper half of the hash
    TokenId id = kNoToken;
  };

  const TokenStrings* strings_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace millrace

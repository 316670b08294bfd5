#pragma once
// The ids of words seen lately: a fixed table where a new word takes the place of the old one in
// its slot. Belongs to one thread at a time.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace millrace {

class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 30;
  static constexpr std::size_t kMaxIds = 8;

  WordCache() : slots_(kSlots) {}

  // hash: hash_bytes(word). Empty when the word is not there.
  std::span<const TokenId> find(std::string_view word, uint64_t hash) const {
    const Slot& slot = slots_[hash % kSlots];
    if (slot.n_bytes != word.size() || std::string_view(slot.bytes.data(), slot.n_bytes) != word) {
      return {};
    }
    return {slot.ids.data(), slot.n_ids};
  }

  // Words or results that are too long are not kept.
  void keep(std::string_view word, uint64_t hash, std::span<const TokenId> ids) {
    if (word.size() > kMaxBytes || ids.size() > kMaxIds) {
      return;
    }
    Slot& slot = slots_[hash % kSlots];
    slot.n_bytes = static_cast<uint8_t>(word.size());
    slot.n_ids = static_cast<uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), slot.bytes.begin());
    std::copy(ids.begin(), ids.end(), slot.ids.begin());
  }

 private:
  static constexpr std::size_t kSlots = 1 << 14;  // of 64 bytes: 1 MiB
  struct alignas(64) Slot {
    uint8_t n_bytes = 0;
    uint8_t n_ids = 0;
    std::array<char, kMaxBytes> bytes;
    std::array<TokenId, kMaxIds> ids;
  };

  std::vector<Slot> slots_;
};

}  // namespace millrace

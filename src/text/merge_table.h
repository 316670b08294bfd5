#pragma once
// (left id, right id) -> rank and merged id: flat open addressing, 16 bytes a slot. Immutable once
// filled, any thread.

#include <bit>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace millrace {

struct MergeRule {
  uint32_t rank = kNoRank;  // lowest first
  TokenId merged = kNoToken;

  static constexpr uint32_t kNoRank = UINT32_MAX;
};

class MergeTable {
 public:
  explicit MergeTable(std::size_t n_rules)
      : slots_(std::bit_ceil(n_rules + n_rules / 2 + 2)), mask_(slots_.size() - 1) {}

  // At most as many calls as the constructor was told. The first rule of a pair counts.
  void add(TokenId left, TokenId right, MergeRule rule) {
    Slot& slot = slots_[place(key_of(left, right))];
    if (slot.rule.rank == MergeRule::kNoRank) {
      slot = {key_of(left, right), rule};
    }
  }

  // rank == kNoRank: the pair does not merge.
  MergeRule find(TokenId left, TokenId right) const {
    return slots_[place(key_of(left, right))].rule;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    MergeRule rule;
  };

  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  // The slot of the key, or the free one where it would go.
  std::size_t place(uint64_t key) const {
    const uint64_t mixed = key * 0x9E3779B97F4A7C15u;
    std::size_t at = (mixed ^ mixed >> 32) & mask_;
    while (slots_[at].key != key && slots_[at].rule.rank != MergeRule::kNoRank) {
      at = (at + 1) & mask_;
    }
    return at;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace millrace

#pragma once
// Who holds which KV block. Integers only: the bytes are KvMemory's. Engine thread.

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace millrace {

inline constexpr BlockId kNoBlock = ~BlockId{0};
inline constexpr int64_t kBlockTokens = 64;

// Blocks that n_tokens positions take.
constexpr int64_t blocks_for(int64_t n_tokens, int64_t block_tokens = kBlockTokens) {
  return (n_tokens + block_tokens - 1) / block_tokens;
}

// A block is in exactly one state: poisoned if it was poisoned, else used while a sequence
// refers to it, else in transfer while a copy from or to it is under way, else free.
//
// The free list is the cache. A released block keeps its content and goes to the list's young end;
// blocks are taken from the old end. A chain is released tail first, so of one conversation the
// last block is given away first and the shared beginning lives longest. A hit takes a block out
// of the middle in O(1). generation() changes when the content is given away, so whoever remembers
// (block, generation) notices without being told.
class BlockPool {
 public:
  explicit BlockPool(int64_t n_blocks);
  static constexpr size_t bytes_per_block() { return sizeof(Block); }

  // For a new owner who will overwrite them: the blocks must be free, each gets one reference.
  void take(std::span<const BlockId> blocks);
  // For one more reader of the content: free ones leave the list, all gain a reference.
  void touch(std::span<const BlockId> blocks);
  // Drops one reference each, last to first; blocks without references become free.
  void release(std::span<const BlockId> chain);

  // A transfer keeps a block from becoming free; several may be under way.
  void begin_transfer(BlockId block);
  void end_transfer(BlockId block);
  // Its content may change under us (a peer that went silent): never handed out until cured.
  void poison(BlockId block);
  void cure(BlockId block);

  // Marks content that can be found again. PrefixIndex's to say.
  void set_cached(BlockId block, bool is_cached);

  // The free list, oldest first: oldest_free(), then next_free() until kNoBlock.
  BlockId oldest_free() const { return next_free(sentinel()); }
  BlockId next_free(BlockId block) const {
    const BlockId next = blocks_[block].next;
    return next == sentinel() ? kNoBlock : next;
  }

  uint32_t references(BlockId block) const { return blocks_[block].references; }
  uint32_t generation(BlockId block) const { return blocks_[block].generation; }
  bool is_free(BlockId block) const { return state_of(blocks_[block]) == State::kFree; }
  bool is_cached(BlockId block) const { return blocks_[block].is_cached; }
  bool can_be_freed(BlockId block) const {
    return blocks_[block].n_transfers == 0 && !blocks_[block].is_poisoned;
  }

  int64_t n_total() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  int64_t n_free() const { return n_free_; }
  int64_t n_cached() const { return n_cached_; }  // of the free ones: content can be found
  int64_t n_used() const { return n_used_; }
  int64_t n_in_transfer() const { return n_in_transfer_; }
  int64_t n_poisoned() const { return n_poisoned_; }

  // free + used + in transfer + poisoned == total, the list holds exactly the free blocks, and no
  // link is broken. O(total): for tests and debug builds.
  bool check() const;

 private:
  enum class State : uint8_t { kFree, kUsed, kInTransfer, kPoisoned };
  struct Block {
    BlockId previous = kNoBlock;  // in the free list
    BlockId next = kNoBlock;
    uint32_t references = 0;
    uint32_t generation = 0;
    uint16_t n_transfers = 0;
    bool is_poisoned = false;
    bool is_cached = false;
  };

  static State state_of(const Block& block);
  BlockId sentinel() const { return static_cast<BlockId>(blocks_.size() - 1); }
  int64_t& count_of(State state);
  // Changes a block through change(Block&) and keeps list and counts in step with its state.
  template <class Change>
  void update(BlockId id, Change change);
  void unlink(BlockId id);
  void append(BlockId id);

  std::vector<Block> blocks_;  // and one more: the sentinel through which the list is circular
  int64_t n_free_ = 0;
  int64_t n_cached_ = 0;
  int64_t n_used_ = 0;
  int64_t n_in_transfer_ = 0;
  int64_t n_poisoned_ = 0;
};

}  // namespace millrace

#pragma once
// What a plan would do to a pool, without doing it: chooses the blocks that a later
// BlockPool::release and take, in the same order, will find free. Engine thread.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"

namespace millrace {

class BlockPicker {
 public:
  explicit BlockPicker(const BlockPool& pool);
  static constexpr size_t bytes_per_block() { return sizeof(Mark) + sizeof(BlockId); }

  void reset();  // forgets everything; the pool may have changed since

  int64_t n_free() const { return n_free_; }

  // As if the pool had released the chain. Before the first pick.
  void release(std::span<const BlockId> chain);

  // As if the pool had touched the block: it is not picked any more. Not one that was picked, and
  // not in a round that released.
  void keep(BlockId block);
  // What keep() would take from n_free().
  int64_t n_free_lost_by_keeping(BlockId block) const;

  // Appends the n blocks that have been free the longest. n <= n_free().
  void pick(int64_t n, std::vector<BlockId>& blocks);
  // Its content will be given away.
  bool is_picked(BlockId block) const { return is_marked(block) && marks_[block].is_picked; }

 private:
  struct Mark {
    uint64_t round = 0;  // of reset(); the rest is from an older round otherwise
    uint32_t n_released = 0;
    bool is_kept = false;
    bool is_picked = false;
  };

  bool is_marked(BlockId block) const { return marks_[block].round == round_; }
  bool is_kept(BlockId block) const { return is_marked(block) && marks_[block].is_kept; }
  Mark& mark(BlockId block);

  const BlockPool& pool_;
  uint64_t round_ = 0;
  int64_t n_free_ = 0;
  BlockId cursor_ = kNoBlock;      // next in the pool's own list
  std::vector<Mark> marks_;        // one per block
  std::vector<BlockId> released_;  // blocks that became free in this round
  size_t n_released_picked_ = 0;
};

}  // namespace millrace

#include "kv/block_picker.h"

#include "base/check.h"

namespace millrace {

BlockPicker::BlockPicker(const BlockPool& pool)
    : pool_(pool), marks_(static_cast<size_t>(pool.n_total())) {
  released_.reserve(marks_.size());
  reset();
}

void BlockPicker::reset() {
  ++round_;
  n_free_ = pool_.n_free();
  cursor_ = pool_.oldest_free();
  released_.clear();
  n_released_picked_ = 0;
}

BlockPicker::Mark& BlockPicker::mark(BlockId block) {
  if (!is_marked(block)) {
    marks_[block] = {.round = round_};
  }
  return marks_[block];
}

void BlockPicker::release(std::span<const BlockId> chain) {
  for (size_t i = chain.size(); i-- > 0;) {
    const uint32_t n_released = ++mark(chain[i]).n_released;
    if (n_released == pool_.references(chain[i]) && pool_.can_be_freed(chain[i])) {
      released_.push_back(chain[i]);
      ++n_free_;
    }
  }
}

int64_t BlockPicker::n_free_lost_by_keeping(BlockId block) const {
  return pool_.is_free(block) && !is_kept(block) ? 1 : 0;
}

void BlockPicker::keep(BlockId block) {
  MR_CHECK(!is_picked(block) && released_.empty(), "block {} is spoken for", block);
  n_free_ -= n_free_lost_by_keeping(block);
  mark(block).is_kept = true;
}

void BlockPicker::pick(int64_t n, std::vector<BlockId>& blocks) {
  MR_CHECK(n <= n_free_, "{} blocks of {} free", n, n_free_);
  n_free_ -= n;
  for (; n > 0; --n) {
    while (cursor_ != kNoBlock && is_kept(cursor_)) {
      cursor_ = pool_.next_free(cursor_);
    }
    BlockId block = cursor_;
    if (block != kNoBlock) {
      cursor_ = pool_.next_free(block);
    } else {
      block = released_[n_released_picked_++];
    }
    mark(block).is_picked = true;
    blocks.push_back(block);
  }
}

}  // namespace millrace

#include "kv/block_picker.h"

#include "base/check.h"

namespace millrace {

BlockPicker::BlockPicker(const BlockPool& pool)
    : pool_(pool), dropped_(static_cast<size_t>(pool.n_total())) {
  reset();
}

void BlockPicker::reset() {
  ++round_;
  n_free_ = pool_.n_free();
  cursor_ = pool_.oldest_free();
  released_.clear();
  n_released_picked_ = 0;
}

void BlockPicker::release(std::span<const BlockId> chain) {
  for (size_t i = chain.size(); i-- > 0;) {
    Dropped& dropped = dropped_[chain[i]];
    if (dropped.round != round_) {
      dropped = {.round = round_};
    }
    ++dropped.references;
    if (dropped.references == pool_.references(chain[i]) && pool_.can_be_freed(chain[i])) {
      released_.push_back(chain[i]);
      ++n_free_;
    }
  }
}

void BlockPicker::pick(int64_t n, std::vector<BlockId>& blocks) {
  MR_CHECK(n <= n_free_, "{} blocks of {} free", n, n_free_);
  n_free_ -= n;
  for (; n > 0; --n) {
    if (cursor_ != kNoBlock) {
      blocks.push_back(cursor_);
      cursor_ = pool_.next_free(cursor_);
    } else {
      blocks.push_back(released_[n_released_picked_++]);
    }
  }
}

}  // namespace millrace

#include "kv/block_pool.h"

#include "base/check.h"

namespace millrace {

BlockPool::BlockPool(int64_t n_blocks) {
  MR_CHECK(n_blocks > 0 && n_blocks < int64_t{kNoBlock}, "n_blocks {}", n_blocks);
  blocks_.resize(static_cast<size_t>(n_blocks) + 1);
  blocks_[sentinel()].previous = blocks_[sentinel()].next = sentinel();
  for (BlockId id = 0; id < sentinel(); ++id) {
    append(id);
  }
  n_free_ = n_blocks;
}

BlockPool::State BlockPool::state_of(const Block& block) {
  if (block.is_poisoned) {
    return State::kPoisoned;
  }
  if (block.references > 0) {
    return State::kUsed;
  }
  return block.n_transfers > 0 ? State::kInTransfer : State::kFree;
}

int64_t& BlockPool::count_of(State state) {
  switch (state) {
    case State::kFree:
      return n_free_;
    case State::kUsed:
      return n_used_;
    case State::kInTransfer:
      return n_in_transfer_;
    case State::kPoisoned:
      break;
  }
  return n_poisoned_;
}

template <class Change>
void BlockPool::update(BlockId id, Change change) {
  MR_CHECK(id < sentinel(), "block {} of {}", id, n_total());
  Block& block = blocks_[id];
  const State before = state_of(block);
  n_cached_ -= before == State::kFree && block.is_cached ? 1 : 0;
  change(block);
  const State after = state_of(block);
  n_cached_ += after == State::kFree && block.is_cached ? 1 : 0;
  if (before == after) {
    return;
  }
  --count_of(before);
  ++count_of(after);
  if (before == State::kFree) {
    unlink(id);
  } else if (after == State::kFree) {
    append(id);
  }
}

void BlockPool::take(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    update(id, [&](Block& block) {
      MR_CHECK(state_of(block) == State::kFree, "block {} is not free", id);
      block.references = 1;
      ++block.generation;
    });
  }
}

void BlockPool::touch(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    update(id, [&](Block& block) {
      MR_CHECK(!block.is_poisoned, "block {} is poisoned", id);
      ++block.references;
    });
  }
}

void BlockPool::release(std::span<const BlockId> chain) {
  for (size_t i = chain.size(); i-- > 0;) {
    update(chain[i], [&](Block& block) {
      MR_CHECK(block.references > 0, "block {} is released once too often", chain[i]);
      --block.references;
    });
  }
}

void BlockPool::begin_transfer(BlockId id) {
  update(id, [](Block& block) { ++block.n_transfers; });
}

void BlockPool::end_transfer(BlockId id) {
  update(id, [&](Block& block) {
    MR_CHECK(block.n_transfers > 0, "block {} is not in transfer", id);
    --block.n_transfers;
  });
}

void BlockPool::poison(BlockId id) {
  update(id, [](Block& block) { block.is_poisoned = true; });
}

void BlockPool::cure(BlockId id) {
  update(id, [](Block& block) {
    block.is_poisoned = false;
    ++block.generation;
  });
}

void BlockPool::set_cached(BlockId id, bool is_cached) {
  update(id, [&](Block& block) { block.is_cached = is_cached; });
}

void BlockPool::unlink(BlockId id) {
  Block& block = blocks_[id];
  blocks_[block.previous].next = block.next;
  blocks_[block.next].previous = block.previous;
  block.previous = block.next = kNoBlock;
}

void BlockPool::append(BlockId id) {
  Block& end = blocks_[sentinel()];
  blocks_[id].previous = end.previous;
  blocks_[id].next = sentinel();
  blocks_[end.previous].next = id;
  end.previous = id;
}

bool BlockPool::check() const {
  int64_t counts[4] = {};
  for (BlockId id = 0; id < sentinel(); ++id) {
    const State state = state_of(blocks_[id]);
    ++counts[static_cast<int>(state)];
    if ((state == State::kFree) == (blocks_[id].next == kNoBlock)) {
      return false;
    }
  }
  int64_t n_listed = 0;
  int64_t n_cached = 0;
  BlockId previous = sentinel();
  for (BlockId id = oldest_free(); id != kNoBlock; id = next_free(id)) {
    if (state_of(blocks_[id]) != State::kFree || blocks_[id].previous != previous ||
        ++n_listed > n_total()) {
      return false;
    }
    n_cached += blocks_[id].is_cached ? 1 : 0;
    previous = id;
  }
  return blocks_[sentinel()].previous == previous && n_listed == n_free_ && n_cached == n_cached_ &&
         counts[static_cast<int>(State::kFree)] == n_free_ &&
         counts[static_cast<int>(State::kUsed)] == n_used_ &&
         counts[static_cast<int>(State::kInTransfer)] == n_in_transfer_ &&
         counts[static_cast<int>(State::kPoisoned)] == n_poisoned_ &&
         n_free_ + n_used_ + n_in_transfer_ + n_poisoned_ == n_total();
}

}  // namespace millrace

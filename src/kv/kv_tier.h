#pragma once
// A place besides the page memory that keeps blocks: a disk now, other machines later. All calls
// from the engine thread unless they say otherwise, and none of them waits: bytes move on the
// tier's own threads, and what became of it is polled.

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "kv/block_key.h"

namespace millrace {

// Of a transfer; no two under way have the same.
using TransferId = uint64_t;

// Where a block's content lies: its pages of the model, and of the draft model if there is one.
struct BlockBytes {
  std::span<std::byte> target;
  std::span<std::byte> draft = {};

  size_t size() const { return target.size() + draft.size(); }
};

// What a block is. A tier compares all of it with what it has.
struct BlockName {
  BlockKey key = {};
  BlockKey parent = {};
  std::span<const TokenId> tokens = {};
};

// Consecutive blocks of one sequence.
struct BlockChain {
  BlockKey parent = {};  // of the first
  std::vector<BlockKey> keys;
  std::vector<TokenId> tokens;  // of all of them, the same number each

  BlockName name(size_t index) const {
    const size_t n = tokens.size() / keys.size();
    return {.key = keys[index],
            .parent = index == 0 ? parent : keys[index - 1],
            .tokens = std::span(tokens).subspan(index * n, n)};
  }
};

// News of a transfer: its first n_blocks have arrived, whole and verified. The last has is_over;
// from then on the tier no longer writes to the transfer's memory.
struct TierEvent {
  TransferId transfer = 0;
  int64_t n_blocks = 0;
  bool is_over = false;
};

class KvTier {
 public:
  virtual ~KvTier() = default;

  // How many of these, from the first on, could be fetched as far as is known.
  virtual int64_t n_stored(std::span<const BlockKey> chain) const = 0;
  // Is there or on its way there.
  virtual bool keeps(const BlockKey& key) const = 0;

  // Copies the block's content, of the size that all blocks of the tier have, and sees to it later.
  // False: no room for the copy now.
  virtual bool put(const BlockName& name, const BlockBytes& content) = 0;

  // Brings the chain into that memory, an entry a block and of its size, one block after the other
  // until one fails. The memory is the tier's until the transfer is over.
  virtual void get(TransferId transfer, BlockChain chain, std::vector<BlockBytes> memory) = 0;
  // Ends it soon; its last event comes all the same.
  virtual void cancel(TransferId transfer) = 0;

  virtual void poll(std::vector<TierEvent>& events) = 0;  // appends

  // Blocks of put() that are not yet where they belong. Any thread.
  virtual int64_t n_unwritten() const = 0;
  // Those that will never be there. Any thread.
  virtual int64_t n_failed() const = 0;
};

}  // namespace millrace

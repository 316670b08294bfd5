#pragma once
// Finds blocks by the tokens they hold: the prefix cache's index. Integers only. Engine thread.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/types.h"
#include "kv/block_picker.h"
#include "kv/block_pool.h"

namespace millrace {

// A tenant's, or a salt's, own world: blocks of one are never found from another.
using NamespaceId = uint32_t;

struct PrefixIndexOptions {
  int64_t block_tokens = kBlockTokens;
  KeyedDigest::Key key = KeyedDigest::random_key();
  int n_key_bits = 128;  // fewer only to test what collisions do: nothing
};

// What of a prompt is there already.
struct PrefixMatch {
  int64_t n_tokens = 0;  // in all
  BlockId source =
      kNoBlock;  // holds those behind the whole blocks; to be copied, others may own it
};

// A block is what it holds: (namespace, block before it, tokens), compared exactly. The chain key,
// a keyed 128-bit digest of the same, only finds the bucket, so a collision is a miss. The block
// before is named by id and generation, so a chain whose beginning has been given away is not
// found.
//
// A block has one entry: of block_tokens tokens, which others may share and build on, or of fewer
// (the end of a prompt or answer), whose content is only ever copied. Its owner may go on writing
// behind the entry's tokens. An entry lasts until forget().
class PrefixIndex {
 public:
  PrefixIndex(BlockPool& pool, const PrefixIndexOptions& options);  // pool outlives it
  ~PrefixIndex();
  static size_t bytes_per_block(int64_t block_tokens = kBlockTokens);  // at most

  // The namespace of that name, for one more user; no two names share one.
  NamespaceId acquire(std::string_view name);
  void release(NamespaceId space);

  // Keys of the chain of blocks: appends those of tokens' whole blocks that keys lacks.
  void extend_keys(NamespaceId space,
                   std::span<const TokenId> tokens,
                   std::vector<Digest128>& keys);

  // Appends the whole blocks, from the first on, that hold the beginning of tokens; then looks for
  // one with as many of the next tokens as possible. Passes over what the picker has given away.
  PrefixMatch match(NamespaceId space,
                    std::span<const Digest128> keys,
                    std::span<const TokenId> tokens,
                    const BlockPicker& picker,
                    std::vector<BlockId>& blocks) const;

  // The block's content has been computed. parent: the block before it, kNoBlock at the beginning.
  // tokens: block_tokens of them. Returns the block that holds the same already, else this one.
  BlockId publish(NamespaceId space,
                  BlockId parent,
                  const Digest128& key,
                  std::span<const TokenId> tokens,
                  BlockId block);
  // The same for an unfinished block: fewer tokens, never shared. Nothing if another entry covers
  // it.
  void publish_part(NamespaceId space,
                    BlockId parent,
                    std::span<const TokenId> tokens,
                    BlockId block);

  // The block's content is about to change: before BlockPool::take or poison.
  void forget(BlockId block);

  int64_t n_entries() const;
  // Every entry is linked where it belongs and marked in the pool, and all counts add up. O(all).
  bool check() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

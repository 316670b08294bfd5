#pragma once
// What names a block outside this process: on disk, and between machines. Pure functions.

#include <cstdint>
#include <span>
#include <vector>

#include "base/digest.h"
#include "base/types.h"

namespace millrace {

// SHA-256 of the key of the block before (of the namespace, for the first) and the block's tokens:
// the same content has the same key in every process, and nobody can find two contents for one.
using BlockKey = Digest256;

// Keys spread evenly: any part of one is a hash of it.
struct BlockKeyHash {
  size_t operator()(const BlockKey& key) const;
};

// Appends the keys of tokens' whole blocks that keys lacks. root: of the namespace.
void extend_block_keys(Sha256& sha,
                       const BlockKey& root,
                       std::span<const TokenId> tokens,
                       int64_t block_tokens,
                       std::vector<BlockKey>& keys);

}  // namespace millrace

#include "kv/block_key.h"

#include <cstring>

namespace millrace {

size_t BlockKeyHash::operator()(const BlockKey& key) const {
  size_t hash = 0;
  std::memcpy(&hash, key.data(), sizeof(hash));
  return hash;
}

void extend_block_keys(Sha256& sha,
                       const BlockKey& root,
                       std::span<const TokenId> tokens,
                       int64_t block_tokens,
                       std::vector<BlockKey>& keys) {
  const auto n = static_cast<size_t>(block_tokens);
  while ((keys.size() + 1) * n <= tokens.size()) {
    sha.add(keys.empty() ? root : keys.back());
    sha.add_part(std::as_bytes(tokens.subspan(keys.size() * n, n)));
    keys.push_back(sha.finish());
  }
}

}  // namespace millrace

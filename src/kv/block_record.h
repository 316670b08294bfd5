#pragma once
// One block as bytes: a head, then the content of its pages. The same on disk and between machines,
// little endian. Pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/block_key.h"
#include "kv/kv_tier.h"

namespace millrace {

// The head's bytes: magic "MRKV", version u32, tokens u32, zero u32, payload bytes u64, key,
// parent and the payload's SHA-256 of 32 bytes each, the tokens i32, and the SHA-256 of all that.
struct RecordHead {
  BlockKey key = {};
  BlockKey parent = {};
  std::vector<TokenId> tokens = {};
  uint64_t payload_bytes = 0;
  Digest256 payload_digest = {};

  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kMaxTokens = 1024;

  static constexpr size_t bytes(size_t n_tokens) { return 24 + 3 * 32 + 4 * n_tokens + 32; }
  size_t head_bytes() const { return bytes(tokens.size()); }
  size_t record_bytes() const { return head_bytes() + static_cast<size_t>(payload_bytes); }
  bool is(const BlockName& name) const;
};

// head_bytes() of them: the head alone, for the payload follows. At most kMaxTokens tokens and 1
// TiB.
std::vector<std::byte> encode(const RecordHead& head, Sha256& sha);
// From the beginning of bytes, which may be longer. Nothing if it is not one, of another version,
// or not what was written.
std::optional<RecordHead> decode(std::span<const std::byte> bytes, Sha256& sha);

// Of the pages, as RecordHead has it.
Digest256 payload_digest(const BlockBytes& content, Sha256& sha);

}  // namespace millrace

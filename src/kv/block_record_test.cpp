#include "kv/block_record.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

RecordHead some_head(int n_tokens) {
  RecordHead head{.payload_bytes = 12'345};
  head.key[3] = std::byte{7};
  head.parent[31] = std::byte{9};
  head.payload_digest[0] = std::byte{1};
  for (int i = 0; i < n_tokens; ++i) {
    head.tokens.push_back(i * 1'000 - 1);
  }
  return head;
}

TEST(BlockRecord, head_comes_back_as_it_was_whatever_follows) {
  Sha256 sha;
  for (const int n : {0, 1, 64, 1024}) {
    const RecordHead head = some_head(n);
    std::vector<std::byte> bytes = encode(head, sha);
    ASSERT_EQ(bytes.size(), head.head_bytes());
    bytes.resize(bytes.size() + 100);
    const auto decoded = decode(bytes, sha);
    ASSERT_TRUE(decoded) << n;
    EXPECT_TRUE(decoded->is({.key = head.key, .parent = head.parent, .tokens = head.tokens}));
    EXPECT_EQ(decoded->payload_bytes, head.payload_bytes);
    EXPECT_EQ(decoded->payload_digest, head.payload_digest);
  }
}

TEST(BlockRecord, any_flipped_bit_and_any_missing_byte_is_noticed) {
  Sha256 sha;
  std::vector<std::byte> bytes = encode(some_head(4), sha);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(decode(bytes, sha)) << "bit " << bit;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
  }
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decode(std::span(bytes).first(n), sha)) << n << " bytes";
  }
  EXPECT_TRUE(decode(bytes, sha));
}

TEST(BlockRecord, another_key_parent_or_token_is_another_block) {
  const RecordHead head = some_head(4);
  BlockName name{.key = head.key, .parent = head.parent, .tokens = head.tokens};
  EXPECT_TRUE(head.is(name));
  name.key[0] = std::byte{1};
  EXPECT_FALSE(head.is(name));
  name.key = head.key;
  name.parent[0] = std::byte{1};
  EXPECT_FALSE(head.is(name));
  name.parent = head.parent;
  name.tokens = name.tokens.first(3);
  EXPECT_FALSE(head.is(name));
}

TEST(BlockKey, depends_on_namespace_and_every_token_before) {
  Sha256 sha;
  const auto keys_of = [&](const BlockKey& root, std::vector<TokenId> tokens) {
    std::vector<BlockKey> keys;
    extend_block_keys(sha, root, tokens, 4, keys);
    return keys;
  };
  BlockKey other{};
  other[0] = std::byte{1};
  const auto keys = keys_of({}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys_of({}, {1, 2, 3, 4, 5, 6, 7, 8}), keys);
  EXPECT_NE(keys_of({}, {0, 2, 3, 4, 5, 6, 7, 8})[1], keys[1]);
  EXPECT_EQ(keys_of({}, {1, 2, 3, 4, 5, 6, 7, 0})[0], keys[0]);
  EXPECT_NE(keys_of(other, {1, 2, 3, 4, 5, 6, 7, 8})[0], keys[0]);
}

}  // namespace
}  // namespace millrace

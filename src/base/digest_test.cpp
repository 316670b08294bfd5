#include "base/digest.h"

#include <gtest/gtest.h>

#include <string_view>

namespace millrace {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(KeyedDigest, is_the_beginning_of_sha256_over_key_and_parts_with_their_lengths) {
  KeyedDigest digest(KeyedDigest::Key{});
  // Python: hashlib.sha256(bytes(32) + struct.pack('<Q', 3) + b'abc').digest()[:16]
  EXPECT_EQ(digest({bytes("abc")}),
            (Digest128{.low = 0xfe4ae040d9a95619, .high = 0xc04b400ca2168416}));
}

TEST(KeyedDigest, depends_on_key_parts_and_where_they_are_cut) {
  KeyedDigest::Key key{};
  KeyedDigest digest(key);
  key[31] = std::byte{1};
  KeyedDigest other(key);
  EXPECT_EQ(digest({bytes("ab"), bytes("c")}), digest({bytes("ab"), bytes("c")}));
  EXPECT_NE(digest({bytes("ab"), bytes("c")}), digest({bytes("a"), bytes("bc")}));
  EXPECT_NE(digest({bytes("ab"), bytes("c")}), digest({bytes("abc")}));
  EXPECT_NE(digest({bytes("abc")}), other({bytes("abc")}));
  EXPECT_NE(KeyedDigest::random_key(), KeyedDigest::random_key());
}

}  // namespace
}  // namespace millrace

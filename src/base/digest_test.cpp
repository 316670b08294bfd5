#include "base/digest.h"

#include <gtest/gtest.h>

#include <string_view>

namespace millrace {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The example of FIPS 180-4; twice, since finish() begins anew.
TEST(Sha256, is_the_standard_s_and_starts_over_when_finished) {
  Sha256 sha;
  for (int round = 0; round < 2; ++round) {
    sha.add(bytes("a"));
    sha.add(bytes("bc"));
    const Digest256 digest = sha.finish();
    EXPECT_EQ(digest[0], std::byte{0xba});
    EXPECT_EQ(digest[1], std::byte{0x78});
    EXPECT_EQ(digest[31], std::byte{0xad});
  }
  sha.add_part(bytes("a"));
  sha.add_part(bytes("bc"));
  const Digest256 cut = sha.finish();
  sha.add_part(bytes("ab"));
  sha.add_part(bytes("c"));
  EXPECT_NE(sha.finish(), cut);
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

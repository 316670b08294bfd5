#include "base/sip_hash.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

// The test vectors of the paper's reference code: key 00 01 .. 0f, text 00 01 .. .
TEST(SipHash, agrees_with_the_published_vectors) {
  const SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::string text;
  for (int i = 0; i < 15; ++i) {
    text += static_cast<char>(i);
  }
  const std::string_view view = text;
  EXPECT_EQ(sip_hash(key, view.substr(0, 0)), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(sip_hash(key, view.substr(0, 1)), 0x74f839c593dc67fdu);
  EXPECT_EQ(sip_hash(key, view.substr(0, 2)), 0x0d6c8009d9a94f5au);
  EXPECT_EQ(sip_hash(key, view.substr(0, 8)), 0x93f5f5799a932462u);
  EXPECT_EQ(sip_hash(key, view), 0xa129ca6149be45e5u);
}

TEST(SipHash, another_key_gives_another_hash) {
  EXPECT_NE(sip_hash({1, 2}, "text"), sip_hash({1, 3}, "text"));
  EXPECT_NE(random_sip_key().low, random_sip_key().low);
}

}  // namespace
}  // namespace millrace

#pragma once
// SipHash-2-4 (Aumasson and Bernstein, 2012): a hash of text that nobody without the key can find
// collisions for. For tables whose keys come from outside. Pure, any thread.

#include <cstdint>
#include <random>
#include <string_view>

namespace millrace {

struct SipKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

inline SipKey random_sip_key() {
  std::random_device device;
  const auto word = [&device] { return uint64_t{device()} << 32 | device(); };
  return {word(), word()};
}

inline uint64_t sip_hash(const SipKey& key, std::string_view text) {
  uint64_t a = key.low ^ 0x736f6d6570736575;
  uint64_t b = key.high ^ 0x646f72616e646f6d;
  uint64_t c = key.low ^ 0x6c7967656e657261;
  uint64_t d = key.high ^ 0x7465646279746573;
  const auto rotate = [](uint64_t x, int n) { return x << n | x >> (64 - n); };
  const auto round = [&](int n) {
    for (int i = 0; i < n; ++i) {
      a += b;
      c += d;
      b = rotate(b, 13) ^ a;
      d = rotate(d, 16) ^ c;
      a = rotate(a, 32);
      c += b;
      a += d;
      b = rotate(b, 17) ^ c;
      d = rotate(d, 21) ^ a;
      c = rotate(c, 32);
    }
  };
  const auto absorb = [&](uint64_t word) {
    d ^= word;
    round(2);
    a ^= word;
  };
  uint64_t word = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    word |= uint64_t{static_cast<unsigned char>(text[i])} << 8 * (i % 8);
    if (i % 8 == 7) {
      absorb(word);
      word = 0;
    }
  }
  absorb(word | uint64_t{text.size()} << 56);
  c ^= 0xff;
  round(4);
  return a ^ b ^ c ^ d;
}

}  // namespace millrace

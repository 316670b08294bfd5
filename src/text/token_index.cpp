#include "text/token_index.h"

#include <bit>
#include <cstring>

namespace millrace {
namespace {

// 64 x 64 -> 128 bits, folded: the mixing step of wyhash (Wang Yi, 2019).
uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t load(const char* bytes, std::size_t n) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, n);
  return value;
}

constexpr uint64_t kOdd1 = 0x9E3779B97F4A7C15u;
constexpr uint64_t kOdd2 = 0xD6E8FEB86659FD93u;

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size() * kOdd2;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 8; at += 8, left -= 8) {
    hash = mix(hash ^ load(at, 8), kOdd1);
  }
  return mix(hash ^ load(at, left), kOdd2);
}

TokenIndex::TokenIndex(const TokenStrings& strings) : strings_(&strings) {
  slots_.resize(std::bit_ceil(static_cast<std::size_t>(strings.size()) * 2 + 2));
  const std::size_t mask = slots_.size() - 1;
  for (TokenId id = 0; id < strings.size(); ++id) {
    if (strings[id].empty() || find(strings[id]) != kNoToken) {
      continue;
    }
    const uint64_t hash = hash_bytes(strings[id]);
    std::size_t at = hash & mask;
    while (slots_[at].id != kNoToken) {
      at = (at + 1) & mask;
    }
    slots_[at] = {static_cast<uint32_t>(hash >> 32), id};
  }
}

TokenId TokenIndex::find(std::string_view bytes) const {
  const uint64_t hash = hash_bytes(bytes);
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (std::size_t at = hash & mask; slots_[at].id != kNoToken; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && (*strings_)[slots_[at].id] == bytes) {
      return slots_[at].id;
    }
  }
  return kNoToken;
}

}  // namespace millrace

#pragma once
// 128-bit keyed digests that name content: SHA-256 of key and parts, cut to 128 bits. One object,
// one thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

namespace millrace {

struct Digest128 {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const Digest128&, const Digest128&) = default;
};

class KeyedDigest {
 public:
  using Key = std::array<std::byte, 32>;

  static Key random_key();

  explicit KeyedDigest(const Key& key);
  ~KeyedDigest();
  KeyedDigest(KeyedDigest&&) noexcept;
  KeyedDigest& operator=(KeyedDigest&&) noexcept;

  // Each part counts with its length, so parts cannot run into each other. Allocates nothing.
  Digest128 operator()(std::initializer_list<std::span<const std::byte>> parts);

 private:
  struct Context;

  Key key_;
  std::unique_ptr<Context> context_;
};

}  // namespace millrace

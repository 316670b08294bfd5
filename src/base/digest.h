#pragma once
// Digests that name content: SHA-256, and keyed ones of 128 bits made from it. One object, one
// thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

namespace millrace {

using Digest256 = std::array<std::byte, 32>;

// SHA-256 (FIPS 180-4). Allocates nothing after it is made.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::span<const std::byte> bytes);
  // With its length in front, so that parts cannot run into each other.
  void add_part(std::span<const std::byte> part);
  // Of all that was added since the last one.
  Digest256 finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

struct Digest128 {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const Digest128&, const Digest128&) = default;
};

class KeyedDigest {
 public:
  using Key = Digest256;

  static Key random_key();

  explicit KeyedDigest(const Key& key) : key_(key) {}

  // Each part counts with its length, so parts cannot run into each other. Allocates nothing.
  Digest128 operator()(std::initializer_list<std::span<const std::byte>> parts);

 private:
  Key key_;
  Sha256 sha_;
};

}  // namespace millrace

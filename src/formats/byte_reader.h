#pragma once
// A cursor over bytes that never reads past their end. One thread.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "formats/gguf_metadata.h"

namespace millrace {

// Bytes of one scalar of the type; 0 for strings and arrays.
size_t gguf_scalar_bytes(GgufType type);

template <class T>
T load_little(const std::byte* at) {
  T value;  // every supported machine is little endian, like the files
  std::memcpy(&value, at, sizeof(T));
  return value;
}

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }
  const std::byte* here() const { return bytes_.data() + position_; }

  // False, and nothing moves, when too few bytes are left.
  template <class T>
  [[nodiscard]] bool read(T& value) {
    if (left() < sizeof(T)) return false;
    value = load_little<T>(here());
    position_ += sizeof(T);
    return true;
  }
  [[nodiscard]] bool skip(uint64_t n) {
    if (n > left()) return false;
    position_ += n;
    return true;
  }
  // A string with its 64-bit length in front.
  [[nodiscard]] bool read_string(std::string_view& text) {
    uint64_t length = 0;
    if (left() < sizeof(length)) return false;
    length = load_little<uint64_t>(here());
    if (length > left() - sizeof(length)) return false;
    text = {reinterpret_cast<const char*>(here()) + sizeof(length), length};
    position_ += sizeof(length) + length;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace millrace

#pragma once
// The key-value part of a GGUF file, as views of the file's bytes. Immutable; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace {

enum class GgufType : uint32_t {  // the numbers in the file
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

const char* gguf_type_name(GgufType type);

// The bytes have been checked against the type: a string has its length in front (64 bits), an
// array is `count` elements one after another. Not aligned.
struct GgufValue {
  GgufType type = GgufType::kUint8;          // kArray for arrays
  GgufType element_type = GgufType::kUint8;  // the same as type for scalars; never kArray
  uint64_t count = 1;
  std::span<const std::byte> bytes;  // without the array's own header

  bool is_array() const { return type == GgufType::kArray; }
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

class GgufMetadata {
 public:
  GgufMetadata() = default;
  // Keys are unique. `file` is for messages.
  GgufMetadata(std::string file, std::vector<GgufEntry> entries);

  std::span<const GgufEntry> entries() const { return entries_; }  // in the order of the file
  const GgufValue* find(std::string_view key) const;               // null when absent

  // T: bool, int32_t, uint32_t, int64_t, uint64_t, float, double, std::string_view, and
  // std::vector of these. Integers convert between widths when the value fits, and to floating
  // point; nothing else converts. Errors name file and key: kNotFound when the key is absent,
  // kCorrupt when its type or range does not fit.
  template <class T>
  Result<T> get(std::string_view key) const;

  // `fallback` when the key is absent; a present value of the wrong type is still an error.
  template <class T>
  Result<T> get_or(std::string_view key, T fallback) const {
    if (find(key) == nullptr) return fallback;
    return get<T>(key);
  }

  // A short text for people: scalars whole, long strings and arrays cut with the number of bytes or
  // elements left out.
  static std::string describe(const GgufValue& value);

 private:
  std::string file_;
  std::vector<GgufEntry> entries_;
  std::vector<uint32_t> by_key_;  // indices of entries_, sorted by key
};

}  // namespace millrace

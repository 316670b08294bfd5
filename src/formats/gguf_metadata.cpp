#include "formats/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "formats/byte_reader.h"

namespace millrace {
namespace {

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};

// Calls visit with a value of the C++ type of a scalar, non-string GGUF type.
template <class Visit>
auto with_number(GgufType type, const std::byte* at, Visit visit) {
  switch (type) {
    case GgufType::kUint8:
      return visit(load_little<uint8_t>(at));
    case GgufType::kInt8:
      return visit(load_little<int8_t>(at));
    case GgufType::kUint16:
      return visit(load_little<uint16_t>(at));
    case GgufType::kInt16:
      return visit(load_little<int16_t>(at));
    case GgufType::kUint32:
      return visit(load_little<uint32_t>(at));
    case GgufType::kInt32:
      return visit(load_little<int32_t>(at));
    case GgufType::kFloat32:
      return visit(load_little<float>(at));
    case GgufType::kUint64:
      return visit(load_little<uint64_t>(at));
    case GgufType::kInt64:
      return visit(load_little<int64_t>(at));
    case GgufType::kFloat64:
      return visit(load_little<double>(at));
    case GgufType::kBool:
      return visit(load_little<uint8_t>(at) != 0);
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  MR_CHECK(false, "type {}", static_cast<uint32_t>(type));
  return visit(false);
}

template <class To, class From>
std::optional<To> convert_number(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool> || std::is_same_v<From, bool>) {
    return std::nullopt;
  } else if constexpr (std::is_integral_v<To>) {
    if constexpr (std::is_integral_v<From>) {
      if (std::in_range<To>(value)) return static_cast<To>(value);
    }
    return std::nullopt;
  } else {
    return static_cast<To>(value);
  }
}

template <class To>
std::optional<To> read_element(GgufType type, const std::byte* at) {
  if constexpr (std::is_same_v<To, std::string_view>) {
    if (type != GgufType::kString) return std::nullopt;
    const auto length = load_little<uint64_t>(at);
    return std::string_view(reinterpret_cast<const char*>(at) + 8, length);
  } else {
    if (type == GgufType::kString) return std::nullopt;
    return with_number(type, at, [](auto value) { return convert_number<To>(value); });
  }
}

size_t element_bytes(GgufType type, const std::byte* at) {
  if (type == GgufType::kString) return 8 + load_little<uint64_t>(at);
  return gguf_scalar_bytes(type);
}

template <class T>
constexpr const char* wanted_name() {
  if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return "string";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else if constexpr (sizeof(T) == 8) {
    return std::is_signed_v<T> ? "64-bit signed integer" : "64-bit unsigned integer";
  } else {
    return std::is_signed_v<T> ? "32-bit signed integer" : "32-bit unsigned integer";
  }
}

std::string quote_short(std::string_view text) {
  constexpr size_t kLongest = 60;
  size_t n_shown = std::min(text.size(), kLongest);
  while (n_shown > 0 && n_shown < text.size() && (text[n_shown] & 0xC0) == 0x80) {
    --n_shown;  // not within a character
  }
  std::string shown = replace_invalid_utf8(text.substr(0, n_shown));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  const size_t n_left = text.size() - n_shown;
  return n_left == 0 ? fmt::format("\"{}\"", shown)
                     : fmt::format("\"{}\" and {} bytes more", shown, n_left);
}

std::string describe_element(GgufType type, const std::byte* at) {
  if (type == GgufType::kString) return quote_short(*read_element<std::string_view>(type, at));
  return with_number(type, at, [](auto value) { return fmt::format("{}", value); });
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  static constexpr const char* kNames[] = {"uint8",
                                           "int8",
                                           "uint16",
                                           "int16",
                                           "uint32",
                                           "int32",
                                           "float32",
                                           "bool",
                                           "string",
                                           "array",
                                           "uint64",
                                           "int64",
                                           "float64"};
  const auto row = static_cast<size_t>(type);
  return row < std::size(kNames) ? kNames[row] : "unknown";
}

size_t gguf_scalar_bytes(GgufType type) {
  static constexpr uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto row = static_cast<size_t>(type);
  return row < std::size(kBytes) ? kBytes[row] : 0;
}

GgufMetadata::GgufMetadata(std::string file, std::vector<GgufEntry> entries)
    : file_(std::move(file)), entries_(std::move(entries)), by_key_(entries_.size()) {
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  std::sort(by_key_.begin(), by_key_.end(), [this](uint32_t a, uint32_t b) {
    return entries_[a].key < entries_[b].key;
  });
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto at = std::lower_bound(
      by_key_.begin(), by_key_.end(), key, [this](uint32_t entry, std::string_view wanted) {
        return entries_[entry].key < wanted;
      });
  if (at == by_key_.end() || entries_[*at].key != key) return nullptr;
  return &entries_[*at].value;
}

template <class T>
Result<T> GgufMetadata::get(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    return fail(ErrorCode::kNotFound, "[gguf] {}: metadata key '{}' is missing", file_, key);
  }
  if constexpr (is_vector<T>::value) {
    using Element = typename T::value_type;
    T elements;
    if (value->is_array()) {
      elements.reserve(value->count);
      const std::byte* at = value->bytes.data();
      for (uint64_t i = 0; i < value->count; ++i) {
        const auto element = read_element<Element>(value->element_type, at);
        if (!element) break;
        elements.push_back(*element);
        at += element_bytes(value->element_type, at);
      }
    }
    if (!value->is_array() || elements.size() != value->count) {
      return fail(ErrorCode::kCorrupt,
                  "[gguf] {}: metadata key '{}' is {}, expected an array of {}",
                  file_,
                  key,
                  describe(*value),
                  wanted_name<Element>());
    }
    return elements;
  } else {
    if (!value->is_array()) {
      if (const auto scalar = read_element<T>(value->type, value->bytes.data())) return *scalar;
    }
    return fail(ErrorCode::kCorrupt,
                "[gguf] {}: metadata key '{}' is {}, expected a {}",
                file_,
                key,
                describe(*value),
                wanted_name<T>());
  }
}

std::string GgufMetadata::describe(const GgufValue& value) {
  if (!value.is_array()) {
    return fmt::format(
        "{} {}", gguf_type_name(value.type), describe_element(value.type, value.bytes.data()));
  }
  constexpr uint64_t kShown = 4;
  std::string text =
      fmt::format("array of {} {} [", value.count, gguf_type_name(value.element_type));
  const std::byte* at = value.bytes.data();
  for (uint64_t i = 0; i < std::min(value.count, kShown); ++i) {
    if (i > 0) text += ", ";
    text += describe_element(value.element_type, at);
    at += element_bytes(value.element_type, at);
  }
  return text + (value.count > kShown ? fmt::format(", and {} more]", value.count - kShown) : "]");
}

#define MR_INSTANTIATE(T)                                          \
  template Result<T> GgufMetadata::get<T>(std::string_view) const; \
  template Result<std::vector<T>> GgufMetadata::get<std::vector<T>>(std::string_view) const;
MR_INSTANTIATE(bool)
MR_INSTANTIATE(int32_t)
MR_INSTANTIATE(uint32_t)
MR_INSTANTIATE(int64_t)
MR_INSTANTIATE(uint64_t)
MR_INSTANTIATE(float)
MR_INSTANTIATE(double)
MR_INSTANTIATE(std::string_view)
#undef MR_INSTANTIATE

}  // namespace millrace

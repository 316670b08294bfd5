#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/byte_reader.h"
#include "formats/json_document.h"

namespace millrace {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxDims = 16;
constexpr size_t kMaxTensors = 1u << 20;  // as in GGUF files

struct TypeSize {
  std::string_view name;
  uint64_t n_bytes;
};
// Whole bytes all of them; types with less than a byte a value are refused by name.
constexpr TypeSize kTypes[] = {
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E5M2", 1},
    {"F8_E4M3", 1},
    {"F8_E8M0", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"I64", 8},
    {"U64", 8},
    {"F64", 8},
    {"C64", 8},
};

// What a file with an impossible header is, for people who took the wrong one.
std::string describe_foreign_file(std::string_view head) {
  if (head.starts_with("version https://git-lfs")) {
    return "is a Git LFS pointer, not the tensors themselves: fetch them with 'git lfs pull'";
  }
  if (head.starts_with("GGUF")) return "is a GGUF file: name it itself, not its folder";
  if (head.starts_with("PK")) return "is a zip archive (a PyTorch checkpoint?), not safetensors";
  if (head.starts_with("<")) return "is a web page or XML, not safetensors";
  return "";
}

// Names travel into messages and logs, so they are text of one line. JSON has been checked for
// UTF-8.
bool is_plain_name(std::string_view name) {
  return std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

struct Entry {
  SafetensorsTensor tensor;  // without data
  uint64_t begin = 0;        // in the data section
  uint64_t end = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<std::vector<SafetensorsTensor>> parse() {
    const auto header = find_header();
    if (!header) return propagate(header);
    const auto document =
        parse_json_object(*header, fmt::format("[safetensors] {}: the header", name_));
    if (!document) return propagate(document);
    if (document->root.size() > kMaxTensors) {
      return corrupt("the header has {} entries, more than {}", document->root.size(), kMaxTensors);
    }
    if (const auto twin = repeated_key(document->root)) {
      return corrupt("the header has '{}' twice", *twin);
    }
    for (const auto& [key, value] : document->root) {
      if (auto done = read_entry(key, value); !done) return propagate(done);
    }
    return place_tensors();
  }

 private:
  template <class... Args>
  tl::unexpected<Error> corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kCorrupt,
                "[safetensors] {}: {}",
                name_,
                fmt::format(format, std::forward<Args>(args)...));
  }

  Result<std::string_view> find_header() {
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    const std::string foreign = describe_foreign_file(text.substr(0, 64));
    if (text.size() < kLengthBytes) {
      if (!foreign.empty()) return fail(ErrorCode::kCorrupt, "[safetensors] {} {}", name_, foreign);
      return fail(
          ErrorCode::kCorrupt,
          "[safetensors] {} is truncated: it has {} bytes, the length of the header takes {}",
          name_,
          text.size(),
          kLengthBytes);
    }
    const auto length = load_little<uint64_t>(bytes_.data());
    const bool is_whole = length <= text.size() - kLengthBytes;
    // The first letters of another format read as a length that no header has.
    if (!foreign.empty() && (!is_whole || text[kLengthBytes] != '{')) {
      return fail(ErrorCode::kCorrupt, "[safetensors] {} {}", name_, foreign);
    }
    if (length > kMaxSafetensorsHeader) {
      return corrupt(
          "it declares a header of {} bytes, more than {}", length, kMaxSafetensorsHeader);
    }
    if (!is_whole) {
      return fail(ErrorCode::kCorrupt,
                  "[safetensors] {} is truncated: the header needs {} bytes, the file has {}",
                  name_,
                  length,
                  text.size());
    }
    if (length == 0 || text[kLengthBytes] != '{') {
      return corrupt("the header does not begin with '{{'");
    }
    data_ = bytes_.subspan(kLengthBytes + length);
    return text.substr(kLengthBytes, length);
  }

  Result<void> read_entry(std::string_view key, const dom::element& value) {
    dom::object object;
    if (key.empty() || key.size() > kMaxNameBytes || !is_plain_name(key)) {
      return corrupt(
          "the name of a tensor has {} bytes or control characters, expected 1 to {} "
          "bytes of text",
          key.size(),
          kMaxNameBytes);
    }
    if (value.get(object) != simdjson::SUCCESS) {
      return corrupt("the entry of '{}' is not an object", key);
    }
    if (key == "__metadata__") return {};  // notes of the program that wrote the file
    if (const auto twin = repeated_key(object))
      return corrupt("tensor '{}' has '{}' twice", key, *twin);
    Entry entry;
    entry.tensor.name = key;
    std::string_view dtype;
    if (object["dtype"].get(dtype) != simdjson::SUCCESS) {
      return corrupt("tensor '{}' has no dtype that is a text", key);
    }
    entry.tensor.dtype = dtype;
    if (auto done = read_shape(object, entry.tensor); !done) return done;
    const auto offsets = read_numbers(object, "data_offsets", 2);
    if (!offsets || offsets->size() != 2) {
      return corrupt("tensor '{}' has no data_offsets of two numbers", key);
    }
    entry.begin = (*offsets)[0];
    entry.end = (*offsets)[1];
    if (auto done = check_length(entry); !done) return done;
    entries_.push_back(std::move(entry));
    return {};
  }

  // Absent when the field is not a list of at most `most` numbers from 0 on.
  static std::optional<std::vector<uint64_t>> read_numbers(const dom::object& object,
                                                           std::string_view key,
                                                           size_t most) {
    dom::array array;
    if (object[key].get(array) != simdjson::SUCCESS || array.size() > most) return std::nullopt;
    std::vector<uint64_t> numbers;
    for (const dom::element& element : array) {
      uint64_t number = 0;
      if (element.get(number) != simdjson::SUCCESS) return std::nullopt;
      numbers.push_back(number);
    }
    return numbers;
  }

  Result<void> read_shape(const dom::object& object, SafetensorsTensor& tensor) const {
    const auto lengths = read_numbers(object, "shape", kMaxDims);
    if (!lengths) {
      return corrupt(
          "tensor '{}' has no shape of at most {} numbers from 0 on", tensor.name, kMaxDims);
    }
    for (const uint64_t length : *lengths) {
      if (length > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return corrupt("tensor '{}' has a length of {} in its shape", tensor.name, length);
      }
      tensor.shape.push_back(static_cast<int64_t>(length));
    }
    return {};
  }

  Result<void> check_length(const Entry& entry) const {
    const SafetensorsTensor& tensor = entry.tensor;
    const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeSize& row) {
      return row.name == tensor.dtype;
    });
    if (type == std::end(kTypes)) {
      return fail(ErrorCode::kUnsupported,
                  "[safetensors] {}: tensor '{}' has the unknown type '{}'",
                  name_,
                  tensor.name,
                  tensor.dtype);
    }
    uint64_t n_bytes = type->n_bytes;
    for (const int64_t length : tensor.shape) {
      if (__builtin_mul_overflow(n_bytes, static_cast<uint64_t>(length), &n_bytes)) {
        return corrupt("tensor '{}' is larger than 2^64 bytes by its shape", tensor.name);
      }
    }
    if (entry.end < entry.begin || entry.end - entry.begin != n_bytes) {
      return corrupt(
          "tensor '{}' takes {} bytes by its shape and type {}, its offsets are {} to {}",
          tensor.name,
          n_bytes,
          tensor.dtype,
          entry.begin,
          entry.end);
    }
    return {};
  }

  Result<std::vector<SafetensorsTensor>> place_tensors() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t end = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (entry.begin < end) {
        return corrupt(
            "tensors '{}' and '{}' overlap", entries_[i - 1].tensor.name, entry.tensor.name);
      }
      if (entry.begin > end) {
        return corrupt("the {} bytes in front of tensor '{}' belong to none",
                       entry.begin - end,
                       entry.tensor.name);
      }
      end = entry.end;
    }
    if (end > data_.size()) {
      return fail(ErrorCode::kCorrupt,
                  "[safetensors] {} is truncated: tensor '{}' ends at offset {} of the data, which "
                  "has {}; the whole file needs {} bytes and has {}",
                  name_,
                  entries_.back().tensor.name,
                  end,
                  data_.size(),
                  end + (bytes_.size() - data_.size()),
                  bytes_.size());
    }
    if (end < data_.size()) {
      return corrupt("the last {} bytes belong to no tensor", data_.size() - end);
    }
    std::vector<SafetensorsTensor> tensors;
    tensors.reserve(entries_.size());
    for (Entry& entry : entries_) {
      entry.tensor.data = data_.subspan(entry.begin, entry.end - entry.begin);
      tensors.push_back(std::move(entry.tensor));
    }
    return tensors;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::span<const std::byte> data_;
  std::vector<Entry> entries_;
};

}  // namespace

Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes,
                                                         const std::string& name) {
  return Parser(bytes, name).parse();
}

}  // namespace millrace

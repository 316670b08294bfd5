#include "formats/gguf_parse.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/utf8.h"
#include "formats/byte_reader.h"

namespace millrace {
namespace {

constexpr size_t kMaxKeyBytes = 65535;  // the format's own limit
constexpr size_t kMaxTensorNameBytes = 256;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = 1u << 20;
// The least a metadata entry (length, one byte of key, type, one byte of value) and a tensor entry
// (length, one byte of name, dims, one dim, type, offset) take: bounds the counts before
// allocating.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr uint64_t kMaxCount = 1u << 20;  // of either; the largest models have some 10,000 tensors

// Names travel into messages and logs, so they are text of one line.
bool is_plain_name(std::string_view name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return std::none_of(name.begin(), name.end(), is_control) && is_valid_utf8(name);
}

std::optional<uint64_t> checked_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::optional<uint64_t> checked_align(uint64_t position, uint64_t alignment) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(position, alignment - 1, &sum)) return std::nullopt;
  return sum / alignment * alignment;
}

// What a file that does not start with GGUF is, for people who took the wrong one.
std::string describe_foreign_file(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 64));
  if (head.empty()) return "is empty";
  if (head.starts_with("version https://git-lfs")) {
    return "is a Git LFS pointer, not the model itself: fetch it with 'git lfs pull'";
  }
  if (head.starts_with("lmgg") || head.starts_with("fmgg") || head.starts_with("tjgg")) {
    return "is in the old GGML format: convert the model to GGUF again";
  }
  if (head.starts_with("PK")) return "is a zip archive (a PyTorch checkpoint?), not a GGUF file";
  if (head.size() > 9 && head[8] == '{') return "looks like a safetensors file, not a GGUF file";
  if (head.starts_with("<")) return "is a web page or XML, not a GGUF file";
  return "is not a GGUF file: it does not start with the letters GGUF";
}

struct TensorEntry {
  TensorView view;      // without data
  uint64_t offset = 0;  // from the start of the data section
  uint64_t n_bytes = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name), reader_(bytes) {}

  Result<ParsedGguf> parse() {
    if (auto done = parse_header(); !done) return propagate(done);
    for (uint64_t i = 0; i < n_entries_; ++i) {
      if (auto done = parse_entry(i); !done) return propagate(done);
    }
    if (auto done = check_unique_keys(); !done) return propagate(done);
    if (auto done = read_alignment(); !done) return propagate(done);
    for (uint64_t i = 0; i < n_tensors_; ++i) {
      if (auto done = parse_tensor(i); !done) return propagate(done);
    }
    if (auto done = check_unique_tensors(); !done) return propagate(done);
    if (auto done = place_tensors(); !done) return propagate(done);
    if (auto done = check_overlaps(); !done) return propagate(done);
    if (auto done = check_trailer(); !done) return propagate(done);
    return std::move(parsed_);
  }

 private:
  template <class... Args>
  tl::unexpected<Error> corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kCorrupt,
                "[gguf] {}: {}",
                name_,
                fmt::format(format, std::forward<Args>(args)...));
  }

  // Something needs n more bytes than the file has.
  tl::unexpected<Error> truncated(std::string_view what, uint64_t n) const {
    return fail(ErrorCode::kCorrupt,
                "[gguf] {} is truncated: {} needs {} bytes at offset {}, the file has {}",
                name_,
                what,
                n,
                reader_.position(),
                bytes_.size());
  }

  Result<void> parse_header() {
    uint32_t magic = 0;
    if (!reader_.read(magic) || magic != 0x46554747u) {
      return fail(ErrorCode::kCorrupt, "[gguf] {} {}", name_, describe_foreign_file(bytes_));
    }
    uint32_t& version = parsed_.version;
    if (!reader_.read(version)) return truncated("the version", 4);
    if (version != 0 && (version & 0xffffu) == 0) {
      return fail(ErrorCode::kUnsupported,
                  "[gguf] {} is big endian; Millrace reads little-endian files: convert the model "
                  "again for a little-endian machine",
                  name_);
    }
    if (version != 2 && version != 3) {
      return fail(ErrorCode::kUnsupported,
                  "[gguf] {} has GGUF version {}; Millrace reads versions 2 and 3{}",
                  name_,
                  version,
                  version == 1 ? ": convert the model again" : "");
    }
    if (!reader_.read(n_tensors_)) return truncated("the number of tensors", 8);
    if (!reader_.read(n_entries_)) return truncated("the number of metadata entries", 8);
    if (auto done = check_count("metadata entries", n_entries_, kMinEntryBytes); !done) return done;
    if (auto done = check_count("tensors", n_tensors_, kMinTensorBytes); !done) return done;
    parsed_.entries.reserve(n_entries_);
    tensors_.reserve(n_tensors_);
    return {};
  }

  // Before anything is allocated for them.
  Result<void> check_count(std::string_view what, uint64_t count, uint64_t least_bytes) const {
    if (count > reader_.left() / least_bytes) {
      return fail(ErrorCode::kCorrupt,
                  "[gguf] {} is truncated or corrupt: it declares {} {} and has {} bytes",
                  name_,
                  count,
                  what,
                  bytes_.size());
    }
    if (count > kMaxCount) {
      return corrupt("it declares {} {}, more than {}", count, what, kMaxCount);
    }
    return {};
  }

  // A string with its length; the error tells whether the length itself is there.
  Result<std::string_view> read_string(std::string_view what) {
    std::string_view text;
    if (reader_.read_string(text)) return text;
    uint64_t length = 0;
    if (!reader_.read(length)) return truncated(what, 8);
    return truncated(what, length);
  }

  Result<std::string_view> read_name(std::string_view what, size_t max_bytes) {
    auto name = read_string(what);
    if (!name) return name;
    if (name->empty()) return corrupt("{} is empty", what);
    if (name->size() > max_bytes) {
      return corrupt("{} has {} bytes, more than {}", what, name->size(), max_bytes);
    }
    if (!is_plain_name(*name)) {
      return corrupt("{} is not UTF-8 text without control characters", what);
    }
    return name;
  }

  Result<GgufType> read_type(std::string_view key) {
    uint32_t type = 0;
    if (!reader_.read(type)) return truncated(fmt::format("the type of key '{}'", key), 4);
    if (type > static_cast<uint32_t>(GgufType::kFloat64)) {
      return corrupt("metadata key '{}' has type {}, which does not exist", key, type);
    }
    return static_cast<GgufType>(type);
  }

  Result<void> parse_entry(uint64_t index) {
    const auto key = read_name(fmt::format("metadata key {}", index), kMaxKeyBytes);
    if (!key) return propagate(key);
    const auto type = read_type(*key);
    if (!type) return propagate(type);
    GgufValue value{*type, *type, 1, {}};
    if (*type == GgufType::kArray) {
      const auto element_type = read_type(*key);
      if (!element_type) return propagate(element_type);
      if (*element_type == GgufType::kArray) {
        return fail(ErrorCode::kUnsupported,
                    "[gguf] {}: metadata key '{}' is an array of arrays, which is not supported",
                    name_,
                    *key);
      }
      value.element_type = *element_type;
      if (!reader_.read(value.count)) {
        return truncated(fmt::format("the length of array '{}'", *key), 8);
      }
    }
    const size_t begin = reader_.position();
    if (auto done = skip_elements(*key, value.element_type, value.count); !done) return done;
    value.bytes = bytes_.subspan(begin, reader_.position() - begin);
    if (value.element_type == GgufType::kBool) {
      const auto is_wrong = [](std::byte b) { return b > std::byte{1}; };
      if (std::any_of(value.bytes.begin(), value.bytes.end(), is_wrong)) {
        return corrupt("metadata key '{}' has a bool that is neither 0 nor 1", *key);
      }
    }
    parsed_.entries.push_back({*key, value});
    return {};
  }

  Result<void> skip_elements(std::string_view key, GgufType type, uint64_t count) {
    const bool is_text = type == GgufType::kString;
    const uint64_t least = is_text ? 8 : gguf_scalar_bytes(type);
    const auto needed = checked_multiply(count, least);
    if (!needed || *needed > reader_.left()) {
      return truncated(fmt::format("metadata key '{}' ({} {})", key, count, gguf_type_name(type)),
                       needed.value_or(std::numeric_limits<uint64_t>::max()));
    }
    if (!is_text) {
      static_cast<void>(reader_.skip(*needed));
      return {};
    }
    for (uint64_t i = 0; i < count; ++i) {
      std::string_view text;
      if (reader_.read_string(text)) continue;
      return propagate(read_string(fmt::format("text {} of metadata key '{}'", i, key)));
    }
    return {};
  }

  Result<void> check_unique_keys() const {
    std::vector<std::string_view> keys;
    keys.reserve(parsed_.entries.size());
    for (const GgufEntry& entry : parsed_.entries) keys.push_back(entry.key);
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin != keys.end()) return corrupt("metadata key '{}' appears twice", *twin);
    return {};
  }

  Result<void> read_alignment() {
    const auto at = std::find_if(parsed_.entries.begin(),
                                 parsed_.entries.end(),
                                 [](const GgufEntry& e) { return e.key == "general.alignment"; });
    if (at == parsed_.entries.end()) return {};
    if (at->value.type != GgufType::kUint32) {
      return corrupt("general.alignment is {}, expected a uint32",
                     GgufMetadata::describe(at->value));
    }
    const uint64_t alignment = load_little<uint32_t>(at->value.bytes.data());
    const bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (!is_power || alignment < kMinAlignment || alignment > kMaxAlignment) {
      return corrupt("general.alignment is {}, expected a power of two from {} to {}",
                     alignment,
                     kMinAlignment,
                     kMaxAlignment);
    }
    alignment_ = alignment;
    return {};
  }

  Result<void> parse_tensor(uint64_t index) {
    const auto name = read_name(fmt::format("the name of tensor {}", index), kMaxTensorNameBytes);
    if (!name) return propagate(name);
    TensorEntry entry;
    entry.view.name = *name;
    if (auto done = parse_shape(entry.view); !done) return done;
    uint32_t type = 0;
    if (!reader_.read(type)) return truncated(fmt::format("the type of tensor '{}'", *name), 4);
    const auto dtype = dtype_from_ggml(type);
    if (!dtype) {
      return fail(
          dtype.error().code, "[gguf] {}: tensor '{}': {}", name_, *name, dtype.error().message);
    }
    entry.view.dtype = *dtype;
    if (!reader_.read(entry.offset)) {
      return truncated(fmt::format("the offset of tensor '{}'", *name), 8);
    }
    if (auto done = measure(entry); !done) return done;
    tensors_.push_back(entry);
    return {};
  }

  Result<void> parse_shape(TensorView& view) {
    uint32_t n_dims = 0;
    if (!reader_.read(n_dims))
      return truncated(fmt::format("the shape of tensor '{}'", view.name), 4);
    if (n_dims < 1 || n_dims > 4) {
      return corrupt("tensor '{}' has {} dimensions, expected 1 to 4", view.name, n_dims);
    }
    view.n_dims = static_cast<int>(n_dims);
    for (uint32_t d = 0; d < n_dims; ++d) {
      uint64_t length = 0;
      if (!reader_.read(length)) {
        return truncated(fmt::format("the shape of tensor '{}'", view.name), 8);
      }
      if (length == 0 || length > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return corrupt("tensor '{}' has length {} in dimension {}", view.name, length, d);
      }
      view.shape[d] = static_cast<int64_t>(length);
    }
    return {};
  }

  // The tensor's size in bytes, without wrapping around.
  Result<void> measure(TensorEntry& entry) const {
    const TensorView& view = entry.view;
    const DTypeInfo& info = dtype_info(view.dtype);
    if (view.shape[0] % info.block_size != 0) {
      return corrupt(
          "tensor '{}' has rows of {} values, which is not a multiple of {}'s block of {}",
          view.name,
          view.shape[0],
          info.name,
          info.block_size);
    }
    std::optional<uint64_t> n_values = 1;
    for (const int64_t length : view.shape) {
      if (n_values) n_values = checked_multiply(*n_values, static_cast<uint64_t>(length));
    }
    std::optional<uint64_t> n_bytes;
    if (n_values) {
      n_bytes = checked_multiply(*n_values / static_cast<uint64_t>(info.block_size),
                                 static_cast<uint64_t>(info.block_bytes));
    }
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!n_bytes || *n_bytes > kMost || *n_values > kMost) {
      return corrupt("tensor '{}' of shape {} x {} x {} x {} is larger than 2^63",
                     view.name,
                     view.shape[0],
                     view.shape[1],
                     view.shape[2],
                     view.shape[3]);
    }
    entry.n_bytes = *n_bytes;
    return {};
  }

  Result<void> check_unique_tensors() const {
    std::vector<std::string_view> names;
    names.reserve(tensors_.size());
    for (const TensorEntry& entry : tensors_) names.push_back(entry.view.name);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin != names.end()) return corrupt("tensor '{}' appears twice", *twin);
    return {};
  }

  // Where the data must end for all tensors to fit; for messages only.
  uint64_t needed_file_bytes(uint64_t data_begin) const {
    uint64_t needed = data_begin;
    for (const TensorEntry& entry : tensors_) {
      uint64_t end = 0;
      if (!__builtin_add_overflow(entry.offset, entry.n_bytes, &end) &&
          !__builtin_add_overflow(end, data_begin, &end)) {
        needed = std::max(needed, end);
      }
    }
    return needed;
  }

  Result<void> place_tensors() {
    const auto data_begin = checked_align(reader_.position(), alignment_);
    if (!data_begin) return corrupt("the header ends at 2^64");
    const uint64_t n_data = *data_begin <= bytes_.size() ? bytes_.size() - *data_begin : 0;
    parsed_.tensors.reserve(tensors_.size());
    data_end_ = std::min<uint64_t>(*data_begin, bytes_.size());
    for (const TensorEntry& entry : tensors_) {
      if (entry.offset % alignment_ != 0) {
        return corrupt("tensor '{}' lies at offset {}, which is not a multiple of the alignment {}",
                       entry.view.name,
                       entry.offset,
                       alignment_);
      }
      if (entry.offset > n_data || entry.n_bytes > n_data - entry.offset) {
        return fail(ErrorCode::kCorrupt,
                    "[gguf] {} is truncated: tensor '{}' needs {} bytes at offset {} of the data, "
                    "which has {}; the whole file needs {} bytes and has {}",
                    name_,
                    entry.view.name,
                    entry.n_bytes,
                    entry.offset,
                    n_data,
                    needed_file_bytes(*data_begin),
                    bytes_.size());
      }
      TensorView view = entry.view;
      view.data = bytes_.subspan(*data_begin + entry.offset, entry.n_bytes);
      data_end_ = std::max(data_end_, *data_begin + entry.offset + entry.n_bytes);
      parsed_.tensors.push_back(view);
    }
    return {};
  }

  Result<void> check_overlaps() const {
    std::vector<const TensorEntry*> by_offset;
    by_offset.reserve(tensors_.size());
    for (const TensorEntry& entry : tensors_) by_offset.push_back(&entry);
    std::sort(by_offset.begin(), by_offset.end(), [](const TensorEntry* a, const TensorEntry* b) {
      return a->offset < b->offset;
    });
    for (size_t i = 1; i < by_offset.size(); ++i) {
      const TensorEntry& before = *by_offset[i - 1];
      if (before.n_bytes > by_offset[i]->offset - before.offset) {
        return corrupt("tensors '{}' and '{}' overlap", before.view.name, by_offset[i]->view.name);
      }
    }
    return {};
  }

  // A second header right behind the data: shards that someone joined with cat.
  Result<void> check_trailer() const {
    const auto padded = checked_align(data_end_, alignment_);
    for (const uint64_t at : {data_end_, padded.value_or(data_end_)}) {
      if (at > bytes_.size() || bytes_.size() - at < 4) continue;
      if (load_little<uint32_t>(bytes_.data() + at) != 0x46554747u) continue;
      return fail(
          ErrorCode::kUnsupported,
          "[gguf] {} has a second GGUF file at offset {}: shards cannot be joined with cat. "
          "Use the separate files, or join them with 'llama-gguf-split --merge'",
          name_,
          at);
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  ByteReader reader_;
  uint64_t n_tensors_ = 0;
  uint64_t n_entries_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  uint64_t data_end_ = 0;  // of the last tensor, from the start of the file
  std::vector<TensorEntry> tensors_;
  ParsedGguf parsed_;
};

}  // namespace

Result<ParsedGguf> parse_gguf_file(std::span<const std::byte> bytes, const std::string& name) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 16 != 0) {
    return fail(
        ErrorCode::kInvalidArgument, "[gguf] {}: the bytes must start at a multiple of 16", name);
  }
  return Parser(bytes, name).parse();
}

}  // namespace millrace

#include "gguf_target.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "formats/gguf.h"

namespace millrace {
namespace {

template <class T>
void read_as(const GgufMetadata& metadata, std::string_view key) {
  static_cast<void>(metadata.get<T>(key));
  const auto list = metadata.get<std::vector<T>>(key);
  if (list) MR_CHECK(list->size() == metadata.find(key)->count);
}

void read_entry(const GgufMetadata& metadata, std::string_view key) {
  MR_CHECK(metadata.find(key) != nullptr);
  read_as<bool>(metadata, key);
  read_as<int32_t>(metadata, key);
  read_as<uint32_t>(metadata, key);
  read_as<int64_t>(metadata, key);
  read_as<uint64_t>(metadata, key);
  read_as<float>(metadata, key);
  read_as<double>(metadata, key);
  read_as<std::string_view>(metadata, key);
  MR_CHECK(!GgufMetadata::describe(*metadata.find(key)).empty());
}

void decode_rows(const TensorView& tensor) {
  const DTypeInfo& info = dtype_info(tensor.dtype);
  std::vector<float> values(static_cast<size_t>(tensor.n_in()));
  for (const int64_t row : {int64_t{0}, tensor.n_rows() - 1}) {
    info.decode(tensor.row(row), values.data(), tensor.n_in());
  }
}

}  // namespace

Result<void> exercise_gguf(std::span<const std::byte> bytes) {
  // A copy of exactly the right size, so that AddressSanitizer sees the first byte behind it.
  const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  const auto file = parse_gguf({copy.get(), bytes.size()}, "fuzz.gguf");
  if (!file) return propagate(file);
  for (const GgufEntry& entry : file->metadata().entries()) {
    read_entry(file->metadata(), entry.key);
  }
  for (const TensorView& tensor : file->tensors()) {
    MR_CHECK(file->find(tensor.name) != nullptr);
    decode_rows(tensor);
  }
  return {};
}

}  // namespace millrace

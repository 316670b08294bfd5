#pragma once
// Writes GGUF version 3. GgufBuilder collects metadata and tensor entries; GgufWriter streams the
// tensors' bytes behind them, so that a file larger than memory can be written. One thread at a
// time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "tensor/dtype.h"

namespace millrace {

// Keys and tensor names are not empty and not repeated, dims are at least 1 and whole rows of
// blocks: the caller's duty, checked with MR_CHECK.
class GgufBuilder {
 public:
  // alignment: a power of two from 8 on. Other than 32 it is written as general.alignment.
  explicit GgufBuilder(uint32_t alignment = 32);

  void add(std::string_view key, bool value);
  void add(std::string_view key, uint16_t value);
  void add(std::string_view key, int32_t value);
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, int64_t value);
  void add(std::string_view key, uint64_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, double value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::span<const std::string> values);
  void add(std::string_view key, std::span<const std::string_view> values);
  void add(std::string_view key, std::span<const uint8_t> values);
  void add(std::string_view key, std::span<const int32_t> values);
  void add(std::string_view key, std::span<const uint32_t> values);
  void add(std::string_view key, std::span<const float> values);
  void add(std::string_view key, const GgufValue& value);  // as read from another file

  // shape: innermost first, 1 to 4 dims. Tensors are written in the order in which they are added.
  void add_tensor(std::string_view name, DType dtype, std::span<const int64_t> shape);

  // The file up to its first tensor, padded to the alignment.
  std::vector<std::byte> header() const;
  int64_t header_bytes() const;

  uint32_t alignment() const { return alignment_; }
  int64_t n_tensors() const { return static_cast<int64_t>(tensor_bytes_.size()); }
  int64_t tensor_bytes(int64_t tensor) const { return tensor_bytes_[tensor]; }  // without padding
  int64_t data_bytes() const { return data_bytes_; }  // of all tensors, with padding

 private:
  template <class T>
  void add_scalar(std::string_view key, GgufType type, T value);
  template <class T>
  void add_array(std::string_view key, GgufType type, std::span<const T> values);
  template <class Strings>
  void add_strings(std::string_view key, const Strings& values);
  void begin_entry(std::string_view key, GgufType type);

  uint32_t alignment_;
  uint64_t n_entries_ = 0;
  std::vector<std::string> keys_;
  std::set<std::string, std::less<>> tensor_names_;
  std::vector<std::byte> entries_;  // as they lie in the file
  std::vector<std::byte> infos_;
  std::vector<int64_t> tensor_bytes_;
  int64_t data_bytes_ = 0;
};

// Writes to "<path>.part" and renames at finish(), so a broken run leaves no half file under the
// name.
class GgufWriter {
 public:
  // Errors name the path: kInvalidArgument (something other than a file is there), kIo.
  static Result<GgufWriter> create(const std::string& path, const GgufBuilder& builder);
  GgufWriter(GgufWriter&&) noexcept;
  GgufWriter& operator=(GgufWriter&&) noexcept;
  ~GgufWriter();  // removes the part file of an unfinished run

  // The next bytes of the tensors' data, in order and without padding between tensors: a tensor may
  // come in pieces, but a piece never spans two tensors.
  Result<void> write(std::span<const std::byte> bytes);
  // All tensors must have been written (MR_CHECK).
  Result<void> finish();

 private:
  struct State;
  explicit GgufWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace

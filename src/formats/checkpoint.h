#pragma once
// A model as its authors publish it: metadata by GGUF's keys and types, tensors by GGUF's names,
// and every byte of its files, whichever format they have. open_gguf (gguf.h) and open_hugging_face
// (hugging_face.h) make it from hostile files, so one that exists is consistent. Immutable; any
// thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "formats/gguf_metadata.h"
#include "tensor/coded_matrix.h"
#include "tensor/tensor_view.h"

namespace millrace {

enum class CheckpointFormat : uint8_t { kGguf, kSafetensors };

// A file of the model's folder that holds no tensors, as tokenizer.json.
struct SideFile {
  std::string name;  // without the folder
  std::string_view text;
};

// What a reader has found and checked. Views point into `files`, into `owned` and `names`, or into
// memory that outlives the checkpoint.
struct CheckpointParts {
  std::string name;  // for messages: the file, the first of its set, or the folder
  CheckpointFormat format = CheckpointFormat::kGguf;
  uint32_t version = 0;  // of GGUF
  int n_shards = 1;      // files that hold tensors
  std::vector<MappedFile> files;
  std::vector<std::span<const std::byte>> contents;  // every byte of every file
  GgufMetadata metadata;
  std::vector<TensorView> tensors;  // unique names; every data span overlaps no other
  std::vector<SideFile> side_files;
  std::deque<std::vector<std::byte>> owned;  // what lies in no file as it is needed
  std::deque<std::string> names;             // of tensors
  std::deque<CodedMatrix> coded;             // what tensors refer to
  std::string (*name_in_file)(std::string_view tensor) = nullptr;  // null: as here
};

class Checkpoint {
 public:
  Checkpoint() = default;  // nothing in it
  explicit Checkpoint(CheckpointParts parts);

  const std::string& name() const { return parts_.name; }
  CheckpointFormat format() const { return parts_.format; }
  uint32_t version() const { return parts_.version; }
  std::string format_text() const;  // "GGUF v3"
  int n_shards() const { return parts_.n_shards; }
  uint64_t file_bytes() const;  // of all files
  std::span<const std::span<const std::byte>> contents() const { return parts_.contents; }

  const GgufMetadata& metadata() const { return parts_.metadata; }
  // The text of a side file; absent when the model has none of this name.
  std::optional<std::string_view> side_file(std::string_view name) const;

  // In the order of the files. Rows may lie in another order than GGUF's: split_head_rows.
  std::span<const TensorView> tensors() const { return parts_.tensors; }
  const TensorView* find(std::string_view tensor) const;  // null when absent
  // What the files call a tensor, there or not, for messages.
  std::string name_in_file(std::string_view tensor) const;

  // Gives the resident pages back after the weights have been repacked; they can still be read.
  void drop_pages() const;

 private:
  CheckpointParts parts_;
  std::vector<uint32_t> by_name_;  // indices of tensors, sorted by name
};

}  // namespace millrace

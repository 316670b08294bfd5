#pragma once
// Reads GGUF versions 2 and 3, little endian, one file or a set of shards. Files are hostile input:
// every length is checked before use, so a GgufFile that opened is consistent. Immutable after
// open; any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "tensor/tensor_view.h"

namespace millrace {

struct ShardName;

class GgufFile {
 public:
  // Maps the file, or all files of its set when the name is one of a set's
  // ("name-00002-of-00003.gguf"). Errors name the file: kNotFound (a file or shards, listed), kIo,
  // kCorrupt (with "truncated" in the message when bytes are missing at the end), kUnsupported
  // (version, byte order, tensor type, pieces of a set that were joined with cat or cut by bytes).
  static Result<GgufFile> open(const std::string& path);

  // A whole single file in memory that outlives the result; bytes.data() is a multiple of 16.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name);

  // The first name of the set, for messages.
  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  int n_shards() const { return n_shards_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of all shards
  // Every byte of the files, in the order of the shards.
  std::span<const std::span<const std::byte>> contents() const { return contents_; }

  const GgufMetadata& metadata() const { return metadata_; }  // of the first shard

  // In the order of the files. Every data span lies inside its file and overlaps no other.
  std::span<const TensorView> tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;  // null when absent

  // Gives the resident pages back after the weights have been repacked; they can still be read.
  void drop_pages() const;

 private:
  static Result<GgufFile> open_set(const ShardName& shard);
  Result<void> check_set() const;

  std::string name_;
  uint32_t version_ = 0;
  int n_shards_ = 1;
  uint64_t file_bytes_ = 0;
  std::vector<MappedFile> files_;  // empty after parse()
  std::vector<std::span<const std::byte>> contents_;
  GgufMetadata metadata_;
  std::vector<TensorView> tensors_;
  std::vector<uint32_t> by_name_;  // indices of tensors_, sorted by name
};

}  // namespace millrace

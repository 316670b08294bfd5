#include "formats/gguf.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "formats/gguf_parse.h"
#include "formats/gguf_shards.h"

namespace millrace {
namespace {

struct SplitInfo {
  int64_t no = 0;     // from 0
  int64_t count = 1;  // files in the set
};

// The split.* keys of one file; a file without them is whole.
Result<SplitInfo> read_split(const GgufMetadata& metadata) {
  const auto no = metadata.get_or<int64_t>("split.no", 0);
  if (!no) return propagate(no);
  const auto count = metadata.get_or<int64_t>("split.count", 1);
  if (!count) return propagate(count);
  return SplitInfo{*no, *count};
}

Result<void> check_whole(const GgufMetadata& metadata, const std::string& name) {
  const auto split = read_split(metadata);
  if (!split) return propagate(split);
  if (split->count <= 1) return {};
  return fail(ErrorCode::kUnsupported,
              "[gguf] {} says that it is shard {} of {}: give all shards the name "
              "<model>-00001-of-{:05}.gguf and so on, in one folder, and load any of them",
              name,
              split->no + 1,
              split->count,
              split->count);
}

Result<void> check_shard(const GgufMetadata& metadata, const ShardName& shard, int no) {
  const auto split = read_split(metadata);
  if (!split) return propagate(split);
  if (split->no == no - 1 && split->count == shard.count) return {};
  return fail(ErrorCode::kCorrupt,
              "[gguf] {} says that it is shard {} of {}, expected {} of {}",
              shard.path(no),
              split->no + 1,
              split->count,
              no,
              shard.count);
}

Result<std::vector<MappedFile>> open_shards(const ShardName& shard) {
  std::vector<MappedFile> files;
  std::string missing;
  int n_missing = 0;
  constexpr int kMostListed = 10;
  for (int no = 1; no <= shard.count; ++no) {
    auto file = MappedFile::open(shard.path(no));
    if (file) {
      files.push_back(std::move(*file));
      continue;
    }
    if (file.error().code != ErrorCode::kNotFound) return propagate(file);
    if (++n_missing <= kMostListed) {
      missing += (n_missing > 1 ? ", " : "") + shard.path(no);
    }
  }
  if (n_missing > 0) {
    return fail(ErrorCode::kNotFound,
                "[gguf] {} of {} shards are missing: {}{}",
                n_missing,
                shard.count,
                missing,
                n_missing > kMostListed ? ", ..." : "");
  }
  return files;
}

std::vector<uint32_t> sort_by_name(std::span<const TensorView> tensors) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [tensors](uint32_t a, uint32_t b) {
    return tensors[a].name < tensors[b].name;
  });
  return order;
}

}  // namespace

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  auto parsed = parse_gguf(bytes, name);
  if (!parsed) return propagate(parsed);
  GgufFile file;
  file.name_ = std::move(name);
  file.version_ = parsed->version;
  file.file_bytes_ = bytes.size();
  file.contents_ = {bytes};
  file.metadata_ = GgufMetadata(file.name_, std::move(parsed->entries));
  if (auto whole = check_whole(file.metadata_, file.name_); !whole) return propagate(whole);
  file.tensors_ = std::move(parsed->tensors);
  file.by_name_ = sort_by_name(file.tensors_);
  return file;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  const std::string remedy = byte_piece_remedy(path);
  if (!remedy.empty()) {
    return fail(ErrorCode::kUnsupported,
                "[gguf] {} is a piece of a file that was cut by bytes: {}",
                path,
                remedy);
  }
  const auto shard = parse_shard_name(path);
  if (!shard || shard->count == 1) {
    auto mapped = MappedFile::open(path);
    if (!mapped) return propagate(mapped);
    auto file = parse(mapped->bytes(), path);
    if (file) file->files_.push_back(std::move(*mapped));
    return file;
  }
  return open_set(*shard);
}

Result<GgufFile> GgufFile::open_set(const ShardName& shard) {
  auto mapped = open_shards(shard);
  if (!mapped) return propagate(mapped);
  GgufFile file;
  file.name_ = shard.path(1);
  file.n_shards_ = shard.count;
  for (int no = 1; no <= shard.count; ++no) {
    const std::span<const std::byte> bytes = (*mapped)[static_cast<size_t>(no - 1)].bytes();
    auto parsed = parse_gguf(bytes, shard.path(no));
    if (!parsed) return propagate(parsed);
    GgufMetadata metadata(shard.path(no), std::move(parsed->entries));
    if (auto checked = check_shard(metadata, shard, no); !checked) return propagate(checked);
    if (no == 1) {
      file.version_ = parsed->version;
      file.metadata_ = std::move(metadata);
    }
    file.file_bytes_ += bytes.size();
    file.contents_.push_back(bytes);
    file.tensors_.insert(file.tensors_.end(), parsed->tensors.begin(), parsed->tensors.end());
  }
  file.files_ = std::move(*mapped);
  file.by_name_ = sort_by_name(file.tensors_);
  if (auto checked = file.check_set(); !checked) return propagate(checked);
  return file;
}

Result<void> GgufFile::check_set() const {
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const std::string_view tensor = tensors_[by_name_[i]].name;
    if (tensors_[by_name_[i - 1]].name == tensor) {
      return fail(
          ErrorCode::kCorrupt, "[gguf] {}: tensor '{}' appears in two shards", name_, tensor);
    }
  }
  const auto n_tensors = static_cast<int64_t>(tensors_.size());
  const auto declared = metadata_.get_or<int64_t>("split.tensors.count", n_tensors);
  if (!declared) return propagate(declared);
  if (*declared != n_tensors) {
    return fail(ErrorCode::kCorrupt,
                "[gguf] {}: the shards have {} tensors, the first declares {}",
                name_,
                n_tensors,
                *declared);
  }
  return {};
}

const TensorView* GgufFile::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name, [this](uint32_t tensor, std::string_view wanted) {
        return tensors_[tensor].name < wanted;
      });
  if (at == by_name_.end() || tensors_[*at].name != name) return nullptr;
  return &tensors_[*at];
}

void GgufFile::drop_pages() const {
  for (const MappedFile& file : files_) file.drop_pages();
}

}  // namespace millrace

#include "formats/gguf.h"

#include <algorithm>
#include <utility>
#include <vector>

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

Result<void> check_set(const CheckpointParts& set) {
  std::vector<std::string_view> names;
  names.reserve(set.tensors.size());
  for (const TensorView& tensor : set.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) {
    return fail(
        ErrorCode::kCorrupt, "[gguf] {}: tensor '{}' appears in two shards", set.name, *twin);
  }
  const auto n_tensors = static_cast<int64_t>(set.tensors.size());
  const auto declared = set.metadata.get_or<int64_t>("split.tensors.count", n_tensors);
  if (!declared) return propagate(declared);
  if (*declared != n_tensors) {
    return fail(ErrorCode::kCorrupt,
                "[gguf] {}: the shards have {} tensors, the first declares {}",
                set.name,
                n_tensors,
                *declared);
  }
  return {};
}

Result<CheckpointParts> parse_single(std::span<const std::byte> bytes, std::string name) {
  auto parsed = parse_gguf_file(bytes, name);
  if (!parsed) return propagate(parsed);
  CheckpointParts parts;
  parts.name = std::move(name);
  parts.version = parsed->version;
  parts.contents = {bytes};
  parts.metadata = GgufMetadata(parts.name, std::move(parsed->entries));
  if (auto whole = check_whole(parts.metadata, parts.name); !whole) return propagate(whole);
  parts.tensors = std::move(parsed->tensors);
  return parts;
}

Result<Checkpoint> open_set(const ShardName& shard) {
  auto mapped = open_shards(shard);
  if (!mapped) return propagate(mapped);
  CheckpointParts parts;
  parts.name = shard.path(1);
  parts.n_shards = shard.count;
  for (int no = 1; no <= shard.count; ++no) {
    const std::span<const std::byte> bytes = (*mapped)[static_cast<size_t>(no - 1)].bytes();
    auto parsed = parse_gguf_file(bytes, shard.path(no));
    if (!parsed) return propagate(parsed);
    GgufMetadata metadata(shard.path(no), std::move(parsed->entries));
    if (auto checked = check_shard(metadata, shard, no); !checked) return propagate(checked);
    if (no == 1) {
      parts.version = parsed->version;
      parts.metadata = std::move(metadata);
    }
    parts.contents.push_back(bytes);
    parts.tensors.insert(parts.tensors.end(), parsed->tensors.begin(), parsed->tensors.end());
  }
  parts.files = std::move(*mapped);
  if (auto checked = check_set(parts); !checked) return propagate(checked);
  return Checkpoint(std::move(parts));
}

}  // namespace

Result<Checkpoint> parse_gguf(std::span<const std::byte> bytes, std::string name) {
  auto parts = parse_single(bytes, std::move(name));
  if (!parts) return propagate(parts);
  return Checkpoint(std::move(*parts));
}

Result<Checkpoint> open_gguf(const std::string& path) {
  const std::string remedy = byte_piece_remedy(path);
  if (!remedy.empty()) {
    return fail(ErrorCode::kUnsupported,
                "[gguf] {} is a piece of a file that was cut by bytes: {}",
                path,
                remedy);
  }
  const auto shard = parse_shard_name(path);
  if (shard && shard->count > 1) return open_set(*shard);
  auto mapped = MappedFile::open(path);
  if (!mapped) return propagate(mapped);
  auto parts = parse_single(mapped->bytes(), path);
  if (!parts) return propagate(parts);
  parts->files.push_back(std::move(*mapped));
  return Checkpoint(std::move(*parts));
}

}  // namespace millrace

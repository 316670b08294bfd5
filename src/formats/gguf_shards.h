#pragma once
// Names of files that are parts of a model. Any thread.

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// "dir/model-00002-of-00003.gguf": prefix "dir/model", no 2 (from 1), count 3.
struct ShardName {
  std::string prefix;
  int no = 0;
  int count = 0;

  std::string path(int shard_no) const;  // of another shard of the set, from 1
};
std::optional<ShardName> parse_shard_name(std::string_view path);

// What to do with a file that was cut by bytes ("model.gguf.part1of2", "model.gguf-split-a"), which
// is no GGUF file by itself. Empty: the name is not of this kind.
std::string byte_piece_remedy(std::string_view path);

}  // namespace millrace

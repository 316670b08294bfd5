#pragma once
// What a disk tier has, by key. It holds the files of its records, and forgets a file's records
// without a walk over all others. One thread.

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kv/block_key.h"
#include "kv/segment_store.h"

namespace millrace {

class RecordTable {
 public:
  // Of memory, at most: a key and its place in one table, the key once more in its file's list.
  static constexpr int64_t kBytesPerRecord = 192;

  // Instead of an older record with this key.
  void add(const BlockKey& key, RecordPlace place);
  bool contains(const BlockKey& key) const { return spots_.contains(key); }
  std::optional<RecordPlace> find(const BlockKey& key) const;
  // Unless the key has another place by now.
  void remove(const BlockKey& key, int64_t segment, int64_t offset);
  // All records of a segment, and its file.
  void forget(int64_t segment);
  int64_t size() const { return static_cast<int64_t>(spots_.size()); }

 private:
  struct Spot {
    int64_t segment = 0;
    int64_t offset = 0;

    bool operator==(const Spot&) const = default;
  };
  struct Segment {
    SegmentPtr file;
    std::vector<BlockKey> keys;  // those with another place by now among them
  };

  std::unordered_map<BlockKey, Spot, BlockKeyHash> spots_;
  std::map<int64_t, Segment> segments_;  // by number
};

}  // namespace millrace

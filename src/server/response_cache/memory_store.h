#pragma once
// Records of answers in memory, the least recently used of which make room. Any thread.

#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/digest.h"
#include "base/metrics.h"

namespace millrace {

using SharedRecord = std::shared_ptr<const std::string>;

struct DigestHash {
  size_t operator()(const Digest256& digest) const {
    size_t hash;
    std::memcpy(&hash, digest.data(), sizeof(hash));
    return hash;
  }
};

class MemoryStore {
 public:
  // max_bytes: of everything together, with what an entry costs besides its record.
  MemoryStore(int64_t max_bytes, Metrics& metrics);

  // An answer may take an eighth, so that one does not push out all others.
  size_t max_record_bytes() const { return static_cast<size_t>(max_bytes_ / 8); }

  SharedRecord find(const Digest256& key);  // null: not there
  bool contains(const Digest256& key) const;
  // Replaces what is there. A record above max_record_bytes is not kept.
  void put(const Digest256& key, SharedRecord record);

  int64_t n_bytes() const;

  // Key, list and table: what an entry takes besides its record, about.
  static constexpr int64_t kEntryBytes = 256;

 private:
  struct Entry {
    Digest256 key;
    SharedRecord record;
  };

  static int64_t bytes_of(const Entry& entry);
  void remove(std::list<Entry>::iterator entry);
  void show_size();

  const int64_t max_bytes_;
  mutable std::mutex mutex_;  // of what follows
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Digest256, std::list<Entry>::iterator, DigestHash> by_key_;
  int64_t n_bytes_ = 0;
  Gauge bytes_;
  Gauge count_;
  Counter evictions_;
};

}  // namespace millrace

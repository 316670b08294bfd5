#include "server/response_cache/memory_store.h"

#include <iterator>
#include <utility>

namespace millrace {

MemoryStore::MemoryStore(int64_t max_bytes, Metrics& metrics)
    : max_bytes_(max_bytes),
      bytes_(metrics.gauge("millrace_response_cache_bytes",
                           "Memory taken by answers that the response cache keeps")),
      count_(metrics.gauge("millrace_response_cache_entries",
                           "Answers that the response cache keeps in memory")),
      evictions_(metrics.counter("millrace_response_cache_evictions_total",
                                 "Answers that made room for others in memory")) {}

SharedRecord MemoryStore::find(const Digest256& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->record;
}

bool MemoryStore::contains(const Digest256& key) const {
  const std::lock_guard lock(mutex_);
  return by_key_.contains(key);
}

void MemoryStore::put(const Digest256& key, SharedRecord record) {
  if (record->size() > max_record_bytes()) {
    return;
  }
  Entry entry{key, std::move(record)};
  const std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    remove(found->second);
  }
  while (!entries_.empty() && n_bytes_ + bytes_of(entry) > max_bytes_) {
    remove(std::prev(entries_.end()));
    evictions_.add();
  }
  n_bytes_ += bytes_of(entry);
  entries_.push_front(std::move(entry));
  by_key_.emplace(key, entries_.begin());
  show_size();
}

int64_t MemoryStore::n_bytes() const {
  const std::lock_guard lock(mutex_);
  return n_bytes_;
}

int64_t MemoryStore::bytes_of(const Entry& entry) {
  return static_cast<int64_t>(entry.record->capacity()) + kEntryBytes;
}

void MemoryStore::remove(std::list<Entry>::iterator entry) {
  n_bytes_ -= bytes_of(*entry);
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

void MemoryStore::show_size() {
  bytes_.set(static_cast<double>(n_bytes_));
  count_.set(static_cast<double>(entries_.size()));
}

}  // namespace millrace

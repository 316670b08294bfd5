#include "kv/record_table.h"

#include <utility>

namespace millrace {

void RecordTable::add(const BlockKey& key, RecordPlace place) {
  const int64_t number = place.segment->number();
  Segment& segment = segments_[number];
  if (segment.file == nullptr) {
    segment.file = std::move(place.segment);
  }
  segment.keys.push_back(key);
  spots_[key] = {.segment = number, .offset = place.offset};
}

std::optional<RecordPlace> RecordTable::find(const BlockKey& key) const {
  const auto found = spots_.find(key);
  if (found == spots_.end()) {
    return std::nullopt;
  }
  const Spot& spot = found->second;
  return RecordPlace{.segment = segments_.at(spot.segment).file, .offset = spot.offset};
}

void RecordTable::remove(const BlockKey& key, int64_t segment, int64_t offset) {
  const auto found = spots_.find(key);
  if (found != spots_.end() && found->second == Spot{.segment = segment, .offset = offset}) {
    spots_.erase(found);
  }
}

void RecordTable::forget(int64_t segment) {
  const auto node = segments_.extract(segment);
  if (node.empty()) {
    return;
  }
  for (const BlockKey& key : node.mapped().keys) {
    const auto found = spots_.find(key);
    if (found != spots_.end() && found->second.segment == segment) {
      spots_.erase(found);
    }
  }
}

}  // namespace millrace

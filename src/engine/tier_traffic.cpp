#include "engine/tier_traffic.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/sequence.h"

namespace millrace {

TierTraffic::TierTraffic(std::unique_ptr<KvTier> tier,
                         const BlockKey& model_key,
                         int64_t block_tokens,
                         std::function<BlockBytes(BlockId)> bytes_of,
                         Metrics& metrics)
    : tier_(std::move(tier)),
      model_key_(model_key),
      block_tokens_(block_tokens),
      bytes_of_(std::move(bytes_of)),
      load_seconds_(metrics.histogram("millrace_kv_disk_load_seconds",
                                      "Loading the blocks of one sequence from disk",
                                      exponential_buckets(0.001, 2, 16))),  // to 33 s
      late_loads_(metrics.counter("millrace_kv_disk_late_loads_total",
                                  "Loads from disk that were given up because nothing came")) {}

BlockKey TierTraffic::root_of(std::string_view salt) {
  sha_.add(model_key_);
  sha_.add_part(std::as_bytes(std::span(salt)));
  return sha_.finish();
}

void TierTraffic::extend_keys(SequenceState& sequence) {
  std::vector<BlockKey>& keys = sequence.tier_keys;
  if (std::ssize(sequence.known_tokens()) / block_tokens_ > std::ssize(keys)) {
    const BlockKey root = keys.empty() ? root_of(sequence.request().cache_salt) : BlockKey{};
    extend_block_keys(sha_, root, sequence.known_tokens(), block_tokens_, keys);
  }
}

BlockKey TierTraffic::parent_of(const SequenceState& sequence, int64_t index) {
  return index == 0 ? root_of(sequence.request().cache_salt)
                    : sequence.tier_keys[static_cast<size_t>(index) - 1];
}

int64_t TierTraffic::n_stored(SequenceState& sequence, int64_t first) {
  extend_keys(sequence);
  const std::span<const BlockKey> keys(sequence.tier_keys);
  return first < std::ssize(keys) ? tier_->n_stored(keys.subspan(static_cast<size_t>(first))) : 0;
}

void TierTraffic::load(SequenceState& sequence,
                       int64_t first,
                       std::span<const BlockId> blocks,
                       TimePoint now) {
  const auto key = sequence.tier_keys.begin() + first;
  const auto token = sequence.known_tokens().begin() + first * block_tokens_;
  BlockChain chain{.parent = parent_of(sequence, first),
                   .keys = {key, key + std::ssize(blocks)},
                   .tokens = {token, token + std::ssize(blocks) * block_tokens_}};
  std::vector<BlockBytes> memory;
  for (const BlockId block : blocks) {
    memory.push_back(bytes_of_(block));
  }
  tier_->get(sequence.id, std::move(chain), std::move(memory));
  loads_.push_back({.sequence = sequence.id, .begin = now});
}

std::span<const LoadNews> TierTraffic::poll(TimePoint now) {
  news_.clear();
  events_.clear();
  tier_->poll(events_);
  for (const TierEvent& event : events_) {
    const auto load = std::ranges::find(loads_, event.transfer, &Load::sequence);
    MR_CHECK(load != loads_.end(), "news of transfer {}", event.transfer);
    load->n_blocks = event.n_blocks;
    last_arrival_ = now;
    if (event.is_over) {
      load_seconds_.observe(seconds_between(load->begin, now));
      news_.push_back({.sequence = load->sequence, .n_blocks = event.n_blocks, .is_over = true});
      loads_.erase(load);
    }
  }
  for (Load& load : loads_) {
    const TimePoint last_sign = std::max(load.begin, last_arrival_);
    if (!load.is_late && seconds_between(last_sign, now) > kMaxStallSeconds) {
      load.is_late = true;
      late_loads_.add();
      tier_->cancel(load.sequence);
      news_.push_back({.sequence = load.sequence, .n_blocks = load.n_blocks});
    }
  }
  return news_;
}

void TierTraffic::offer(SequenceState& sequence, int64_t index, BlockId block) {
  extend_keys(sequence);
  const BlockKey& key = sequence.tier_keys[static_cast<size_t>(index)];
  if (tier_->keeps(key)) {
    return;
  }
  const BlockName name{.key = key,
                       .parent = parent_of(sequence, index),
                       .tokens = std::span(sequence.known_tokens())
                                     .subspan(static_cast<size_t>(index * block_tokens_),
                                              static_cast<size_t>(block_tokens_))};
  if (!tier_->put(name, bytes_of_(block))) {
    ++n_refused_;
  }
}

}  // namespace millrace

#pragma once
// Blocks on their way between the page memory and a tier: what is loaded for whom, how long that
// may take, and what is offered to be kept. Engine thread, but for n_unwritten() and
// n_failed().

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "engine/step_plan.h"
#include "kv/kv_tier.h"

namespace millrace {

struct SequenceState;

// A load that is over, or late: then the sequence waits no longer, and the end is still to come.
struct LoadNews {
  SequenceId sequence = 0;
  int64_t n_blocks = 0;  // that have arrived
  bool is_over = false;
};

class TierTraffic {
 public:
  // Loads are given up when nothing has arrived for so long, of this one or of another: those that
  // a tier serves one after the other wait their turn.
  static constexpr double kMaxStallSeconds = 2;

  // model_key: names everything but tokens and salt that the content of blocks depends on.
  // bytes_of: where a block's content lies.
  TierTraffic(std::unique_ptr<KvTier> tier,
              const BlockKey& model_key,
              int64_t block_tokens,
              std::function<BlockBytes(BlockId)> bytes_of,
              Metrics& metrics);

  // How many blocks of the sequence, from block `first` on, can be loaded.
  int64_t n_stored(SequenceState& sequence, int64_t first);
  // Starts a load of the plan. blocks: those to fill.
  void load(SequenceState& sequence, int64_t first, std::span<const BlockId> blocks, TimePoint now);
  // What has become of loads since the last call.
  std::span<const LoadNews> poll(TimePoint now);
  void cancel(SequenceId sequence) { tier_->cancel(sequence); }

  // A block of the sequence, to be kept unless it is already; its content is copied now.
  void offer(SequenceState& sequence, int64_t index, BlockId block);

  int64_t n_refused() const { return n_refused_; }  // offers for which there was no room
  int64_t n_unwritten() const { return tier_->n_unwritten(); }
  int64_t n_failed() const { return tier_->n_failed(); }

 private:
  struct Load {
    SequenceId sequence = 0;
    TimePoint begin;
    int64_t n_blocks = 0;
    bool is_late = false;
  };

  void extend_keys(SequenceState& sequence);
  BlockKey parent_of(const SequenceState& sequence, int64_t index);
  BlockKey root_of(std::string_view salt);

  std::unique_ptr<KvTier> tier_;
  const BlockKey model_key_;
  const int64_t block_tokens_;
  const std::function<BlockBytes(BlockId)> bytes_of_;
  Histogram load_seconds_;
  Counter late_loads_;
  Sha256 sha_;
  int64_t n_refused_ = 0;
  std::vector<Load> loads_;
  TimePoint last_arrival_;  // of any load
  std::vector<TierEvent> events_;
  std::vector<LoadNews> news_;
};

}  // namespace millrace

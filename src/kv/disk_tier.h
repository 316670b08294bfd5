#pragma once
// A tier on disk. The engine thread has the table of what is there; one thread reads, one writes,
// and both report by messages, so that the engine thread neither waits nor locks.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/result.h"
#include "kv/kv_tier.h"

namespace millrace {

struct DiskTierOptions {
  std::string folder;
  int64_t max_bytes = 0;    // of all segments together
  int64_t block_bytes = 0;  // BlockBytes::size() of every block
  // How long the destructor may take to write what put() has copied.
  double max_flush_seconds = 5;
  // When poll() has something to tell; on threads of the tier, also while the destructor runs.
  std::function<void()> on_news = {};
};

class DiskTier final : public KvTier {
 public:
  // Errors: kInvalidArgument when not even two blocks fit; as SegmentStore::open. metrics outlives
  // the tier.
  static Result<std::unique_ptr<DiskTier>> open(const DiskTierOptions& options, Metrics& metrics);
  ~DiskTier() override;

  // Of the copies that put() makes, at most.
  static int64_t stage_bytes(int64_t block_bytes);
  // Of the table, at most.
  static int64_t table_bytes(int64_t max_bytes, int64_t block_bytes);

  int64_t n_stored(std::span<const BlockKey> chain) const override;
  bool keeps(const BlockKey& key) const override;
  bool put(const BlockName& name, const BlockBytes& content) override;
  void get(TransferId transfer, BlockChain chain, std::vector<BlockBytes> memory) override;
  void cancel(TransferId transfer) override;
  void poll(std::vector<TierEvent>& events) override;
  int64_t n_unwritten() const override;
  int64_t n_failed() const override;

  int64_t n_records() const;  // of this size of blocks

 private:
  class Impl;
  explicit DiskTier(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#pragma once
// A tier in memory that brings blocks only when it is told to, for tests.

#include <algorithm>
#include <map>
#include <vector>

#include "kv/kv_tier.h"

namespace millrace {

class FakeTier final : public KvTier {
 public:
  int64_t n_stored(std::span<const BlockKey> chain) const override {
    return std::ranges::find_if(chain, [&](const BlockKey& key) { return !keeps(key); }) -
           chain.begin();
  }
  bool keeps(const BlockKey& key) const override { return records_.contains(key); }
  bool put(const BlockName& name, const BlockBytes& content) override {
    if (is_full) {
      return false;
    }
    records_[name.key] = {content.target.begin(), content.target.end()};
    return true;
  }
  void get(TransferId transfer, BlockChain chain, std::vector<BlockBytes> memory) override {
    transfers_[transfer] = {.chain = std::move(chain), .memory = std::move(memory)};
  }
  void cancel(TransferId transfer) override { cancelled.push_back(transfer); }
  void poll(std::vector<TierEvent>& events) override {
    events.insert(events.end(), news_.begin(), news_.end());
    news_.clear();
  }
  int64_t n_unwritten() const override { return 0; }
  int64_t n_failed() const override { return 0; }

  // The next block of a transfer.
  void bring(TransferId id) {
    Transfer& transfer = transfers_.at(id);
    const auto at = static_cast<size_t>(transfer.n_blocks++);
    std::ranges::copy(records_.at(transfer.chain.keys[at]), transfer.memory[at].target.begin());
    news_.push_back({.transfer = id, .n_blocks = transfer.n_blocks});
  }
  void end(TransferId id) {
    news_.push_back({.transfer = id, .n_blocks = transfers_.at(id).n_blocks, .is_over = true});
    transfers_.erase(id);
  }

  bool is_full = false;
  std::vector<TransferId> cancelled;

 private:
  struct Transfer {
    BlockChain chain;
    std::vector<BlockBytes> memory;
    int64_t n_blocks = 0;
  };

  std::map<BlockKey, std::vector<std::byte>> records_;
  std::map<TransferId, Transfer> transfers_;
  std::vector<TierEvent> news_;
};

}  // namespace millrace

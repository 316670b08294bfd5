#include "engine/tier_traffic.h"

#include <gtest/gtest.h>

#include "engine/fake_tier.h"
#include "engine/sequence.h"

namespace millrace {
namespace {

constexpr int64_t kTokens = 4;

class TierTrafficTest : public testing::Test {
 protected:
  TierTrafficTest() : traffic_(make(BlockKey{}, tier_)) {}

  TierTraffic make(const BlockKey& model_key, FakeTier*& tier) {
    auto owned = std::make_unique<FakeTier>();
    tier = owned.get();
    return TierTraffic(
        std::move(owned),
        model_key,
        kTokens,
        [this](BlockId block) { return BlockBytes{.target = std::span(memory_.at(block))}; },
        metrics_);
  }
  std::unique_ptr<SequenceState> sequence(SequenceId id,
                                          std::vector<TokenId> tokens,
                                          const std::string& salt = {}) {
    auto state = std::make_shared<RequestState>();
    state->request.prompt = std::move(tokens);
    state->request.cache_salt = salt;
    return std::make_unique<SequenceState>(id, 0, state);
  }
  static TimePoint at(double seconds) {
    return TimePoint{} + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1'000));
  }

  Metrics metrics_;
  std::vector<std::vector<std::byte>> memory_{8, std::vector<std::byte>(16)};
  FakeTier* tier_ = nullptr;
  TierTraffic traffic_;
};

TEST_F(TierTrafficTest, what_was_offered_comes_back_for_the_same_tokens_and_salt_only) {
  const auto a = sequence(1, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  memory_[3].assign(16, std::byte{33});
  memory_[4].assign(16, std::byte{44});
  EXPECT_EQ(traffic_.n_stored(*a, 0), 0);
  traffic_.offer(*a, 0, 3);
  traffic_.offer(*a, 1, 4);
  const auto b = sequence(2, {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13});
  EXPECT_EQ(traffic_.n_stored(*b, 0), 2);
  EXPECT_EQ(traffic_.n_stored(*b, 1), 1);
  EXPECT_EQ(traffic_.n_stored(*b, 2), 0);
  EXPECT_EQ(traffic_.n_stored(*b, 3), 0);
  EXPECT_EQ(traffic_.n_stored(*sequence(3, {1, 2, 3, 4, 5, 6, 7, 8}, "tenant"), 0), 0);
  EXPECT_EQ(traffic_.n_stored(*sequence(4, {0, 2, 3, 4, 5, 6, 7, 8}), 0), 0);

  const std::vector<BlockId> blocks = {6, 7};
  traffic_.load(*b, 0, blocks, at(0));
  EXPECT_TRUE(traffic_.poll(at(0.1)).empty());
  tier_->bring(2);
  tier_->bring(2);
  EXPECT_TRUE(traffic_.poll(at(0.2)).empty());
  tier_->end(2);
  const auto news = traffic_.poll(at(0.3));
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].sequence, 2U);
  EXPECT_EQ(news[0].n_blocks, 2);
  EXPECT_TRUE(news[0].is_over);
  EXPECT_EQ(memory_[6], memory_[3]);
  EXPECT_EQ(memory_[7], memory_[4]);
}

TEST_F(TierTrafficTest, another_model_finds_nothing) {
  const auto a = sequence(1, {1, 2, 3, 4});
  BlockKey key{};
  key[9] = std::byte{1};
  FakeTier* other_tier = nullptr;
  TierTraffic other = make(key, other_tier);
  traffic_.offer(*a, 0, 0);
  const auto mine = sequence(2, {1, 2, 3, 4});
  const auto others = sequence(3, {1, 2, 3, 4});
  EXPECT_EQ(traffic_.n_stored(*mine, 0), 1);
  EXPECT_EQ(other.n_stored(*others, 0), 0);
  EXPECT_NE(mine->tier_keys, others->tier_keys);
}

TEST_F(TierTrafficTest, load_of_which_nothing_comes_is_late_once_and_ends_later) {
  const auto a = sequence(1, {1, 2, 3, 4, 5, 6, 7, 8});
  traffic_.offer(*a, 0, 0);
  traffic_.offer(*a, 1, 1);
  const std::vector<BlockId> blocks = {6, 7};
  traffic_.load(*a, 0, blocks, at(0));
  const double stall = TierTraffic::kMaxStallSeconds;
  tier_->bring(1);
  EXPECT_TRUE(traffic_.poll(at(stall - 0.1)).empty());
  EXPECT_TRUE(traffic_.poll(at(2 * stall - 0.2)).empty());  // it has made progress
  ASSERT_EQ(traffic_.poll(at(2 * stall + 0.1)).size(), 1U);
  EXPECT_EQ(tier_->cancelled, std::vector<TransferId>{1});
  EXPECT_TRUE(traffic_.poll(at(2 * stall + 0.2)).empty());
  tier_->end(1);
  const auto news = traffic_.poll(at(2 * stall + 0.3));
  ASSERT_EQ(news.size(), 1U);
  EXPECT_TRUE(news[0].is_over);
  EXPECT_EQ(news[0].n_blocks, 1);
  EXPECT_EQ(metrics_
                .counter("millrace_kv_disk_late_loads_total",
                         "Loads from disk that were given up because nothing came")
                .value(),
            1);
}

// A tier that serves one load after the other: those that wait for their turn are not stalled.
TEST_F(TierTrafficTest, loads_wait_for_each_other_as_long_as_anything_arrives) {
  const auto a = sequence(1, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto b = sequence(2, {5, 6, 7, 8});
  const auto c = sequence(3, {9, 9, 9, 9});
  traffic_.offer(*a, 0, 0);
  traffic_.offer(*a, 1, 1);
  traffic_.offer(*b, 0, 2);
  traffic_.offer(*c, 0, 3);
  const std::vector<BlockId> blocks = {4, 5, 6, 7};
  const double stall = TierTraffic::kMaxStallSeconds;
  traffic_.load(*a, 0, std::span(blocks).first(2), at(0));
  traffic_.load(*b, 0, std::span(blocks).subspan(2, 1), at(0));
  tier_->bring(1);
  EXPECT_TRUE(traffic_.poll(at(0.9 * stall)).empty());
  traffic_.load(*c, 0, std::span(blocks).subspan(3), at(0.9 * stall));
  tier_->bring(1);
  tier_->end(1);
  EXPECT_EQ(traffic_.poll(at(1.8 * stall)).size(), 1U);  // that a is over
  EXPECT_TRUE(traffic_.poll(at(2.7 * stall)).empty());
  EXPECT_TRUE(tier_->cancelled.empty());
  EXPECT_EQ(traffic_.poll(at(2.9 * stall)).size(), 2U);  // now nothing has come for too long
  EXPECT_EQ(tier_->cancelled, (std::vector<TransferId>{2, 3}));
}

TEST_F(TierTrafficTest, offers_without_room_are_counted_and_taken_later) {
  const auto a = sequence(1, {1, 2, 3, 4});
  tier_->is_full = true;
  traffic_.offer(*a, 0, 0);
  EXPECT_EQ(traffic_.n_refused(), 1);
  EXPECT_EQ(traffic_.n_stored(*a, 0), 0);
  tier_->is_full = false;
  traffic_.offer(*a, 0, 0);
  EXPECT_EQ(traffic_.n_refused(), 1);
  EXPECT_EQ(traffic_.n_stored(*a, 0), 1);
}

}  // namespace
}  // namespace millrace

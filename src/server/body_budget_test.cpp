#include "server/body_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace millrace {
namespace {

constexpr size_t kMax = 1000;
constexpr size_t kSmall = 10;

TEST(BodyBudget, counts_what_its_shares_hold_whatever_they_do) {
  std::mt19937 random(7);
  BodyBudget budget(kMax, kSmall);
  std::vector<BodyBudget::Share> shares;
  for (int i = 0; i < 6; ++i) {
    shares.emplace_back(budget);
  }
  int n_refused = 0;
  for (int step = 0; step < 20'000; ++step) {
    BodyBudget::Share& share = shares[random() % shares.size()];
    const size_t held = share.bytes();
    const size_t others = budget.used() - held;
    const size_t bytes = random() % 500;
    switch (random() % 4) {
      case 0:
        share.release();
        EXPECT_EQ(share.bytes(), 0U);
        break;
      case 1:
        share = BodyBudget::Share(budget);
        break;
      default: {
        const bool is_free = bytes < kSmall || bytes <= held;
        const bool has_grown = share.grow_to(bytes);
        EXPECT_EQ(has_grown, is_free || others == 0 || others + bytes <= kMax);
        EXPECT_EQ(share.bytes(), has_grown && !is_free ? bytes : held);
        n_refused += has_grown ? 0 : 1;
      }
    }
    size_t sum = 0;
    for (const BodyBudget::Share& one : shares) {
      sum += one.bytes();
    }
    ASSERT_EQ(budget.used(), sum);
    ASSERT_LE(sum, kMax);
  }
  EXPECT_GT(n_refused, 100);
  shares.clear();
  EXPECT_EQ(budget.used(), 0U);
}

TEST(BodyBudget, has_always_room_for_one_alone_and_for_small_ones) {
  BodyBudget budget(kMax, kSmall);
  BodyBudget::Share alone(budget);
  EXPECT_TRUE(budget.has_room_for(5 * kMax));
  EXPECT_TRUE(alone.grow_to(2 * kMax));
  EXPECT_TRUE(alone.grow_to(5 * kMax));
  BodyBudget::Share other(budget);
  EXPECT_FALSE(budget.has_room_for(kSmall));
  EXPECT_FALSE(other.grow_to(kSmall));
  EXPECT_TRUE(budget.has_room_for(kSmall - 1));
  EXPECT_TRUE(other.grow_to(kSmall - 1));
  EXPECT_EQ(budget.used(), 5 * kMax);
}

TEST(BodyBudget, promises_reserve_nothing) {
  BodyBudget budget(kMax, kSmall);
  BodyBudget::Share slow(budget);
  EXPECT_TRUE(slow.grow_to(kSmall));
  EXPECT_TRUE(budget.has_room_for(kMax - kSmall));
  EXPECT_FALSE(budget.has_room_for(kMax - kSmall + 1));
  EXPECT_TRUE(budget.has_room_for(kMax - kSmall));
  EXPECT_EQ(budget.used(), kSmall);
}

TEST(BodyBudget, a_moved_share_is_given_back_once) {
  BodyBudget budget(kMax, kSmall);
  {
    BodyBudget::Share first(budget);
    EXPECT_TRUE(first.grow_to(100));
    BodyBudget::Share second(std::move(first));
    BodyBudget::Share third(budget);
    EXPECT_TRUE(third.grow_to(200));
    third = std::move(second);
    EXPECT_EQ(third.bytes(), 100U);
    EXPECT_EQ(budget.used(), 100U);
  }
  EXPECT_EQ(budget.used(), 0U);
}

TEST(BodyBudget, is_never_exceeded_by_many_threads) {
  BodyBudget budget(kMax, kSmall);
  std::atomic<size_t> most{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      BodyBudget::Share share(budget);
      for (int i = 0; i < 20'000; ++i) {
        if (!share.grow_to(share.bytes() + kSmall + random() % 200)) {
          share.release();
        }
        const size_t used = budget.used();
        size_t seen = most.load();
        while (seen < used && !most.compare_exchange_weak(seen, used)) {
        }
        if (share.bytes() > kMax / 2) {  // so that none is alone with more than there is
          share.release();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(most, kMax);
  EXPECT_GT(most, kMax / 2);
  EXPECT_EQ(budget.used(), 0U);
}

}  // namespace
}  // namespace millrace

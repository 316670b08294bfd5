#include "base/inbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(inbox, keeps_the_order_of_one_producer) {
  Inbox<int> inbox(100);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(inbox.try_push(int{i}));
  }
  std::vector<int> out;
  EXPECT_TRUE(inbox.drain(out));
  EXPECT_FALSE(inbox.drain(out));
  ASSERT_EQ(out.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(out[i], i);
  }
}

TEST(inbox, refuses_what_exceeds_its_capacity_and_leaves_it_untouched) {
  Inbox<std::unique_ptr<int>> inbox(1);
  EXPECT_TRUE(inbox.try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(inbox.try_push(std::move(second)));
  ASSERT_NE(second, nullptr);
  inbox.push_always(std::move(second));
  std::vector<std::unique_ptr<int>> out;
  inbox.drain(out);
  EXPECT_EQ(out.size(), 2u);
  EXPECT_TRUE(inbox.try_push(std::make_unique<int>(3)));  // left behind on purpose: no leak
}

TEST(inbox, loses_nothing_between_several_producers_and_a_sleeping_consumer) {
  constexpr int kProducers = 4;
  constexpr int kItems = 5000;
  Inbox<int> inbox(1u << 20);
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kItems; ++i) {
        inbox.try_push(p * kItems + i);
      }
    });
  }
  std::vector<int> out;
  std::vector<int> last(kProducers, -1);
  while (out.size() < kProducers * kItems) {
    const std::size_t before = out.size();
    inbox.wait();
    inbox.drain(out);
    for (std::size_t i = before; i < out.size(); ++i) {
      EXPECT_LT(last[out[i] / kItems], out[i] % kItems);
      last[out[i] / kItems] = out[i] % kItems;
    }
  }
  for (std::thread& producer : producers) {
    producer.join();
  }
  EXPECT_EQ(inbox.size(), 0u);
}

TEST(inbox, wake_ends_a_wait_without_an_item) {
  Inbox<int> inbox(1);
  std::thread waker([&] { inbox.wake(); });
  inbox.wait();
  waker.join();
}

}  // namespace
}  // namespace millrace

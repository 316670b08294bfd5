#include "server/wake_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>
#include <vector>

namespace millrace {
namespace {

struct Sleeper {
  int n_wakes = 0;
};
using Queue = WakeQueue<Sleeper>;

bool is_readable(const Queue& queue) {
  pollfd waiting{queue.descriptor(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

TEST(WakeQueue, wakes_each_target_once_however_often_it_was_pushed) {
  Queue queue;
  Sleeper a;
  Sleeper b;
  const auto slot_a = std::make_shared<Queue::Slot>();
  const auto slot_b = std::make_shared<Queue::Slot>();
  slot_a->target = &a;
  slot_b->target = &b;
  EXPECT_FALSE(is_readable(queue));
  queue.push(slot_a);
  queue.push(slot_b);
  queue.push(slot_a);
  EXPECT_TRUE(is_readable(queue));
  const auto wake = [](Sleeper& sleeper) { ++sleeper.n_wakes; };
  queue.drain(wake);
  EXPECT_EQ(a.n_wakes, 1);
  EXPECT_EQ(b.n_wakes, 1);
  EXPECT_FALSE(is_readable(queue));
  queue.push(slot_a);
  queue.drain(wake);
  EXPECT_EQ(a.n_wakes, 2);
}

TEST(WakeQueue, a_slot_may_outlive_its_target_and_its_owner) {
  Queue queue;
  auto slot = std::make_shared<Queue::Slot>();
  queue.push(slot);
  slot.reset();
  queue.drain([](Sleeper&) { FAIL(); });
}

TEST(WakeQueue, nothing_published_before_a_push_is_missed) {
  Queue queue;
  Sleeper sleeper;
  const auto slot = std::make_shared<Queue::Slot>();
  slot->target = &sleeper;
  std::atomic<int> n_published{0};
  constexpr int kEach = 20'000;
  std::vector<std::thread> producers;
  for (int i = 0; i < 3; ++i) {
    producers.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) {
        n_published.fetch_add(1, std::memory_order_relaxed);
        queue.push(slot);
      }
    });
  }
  int n_seen = 0;
  while (n_seen < 3 * kEach) {
    pollfd waiting{queue.descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, 10'000), 1) << "a wake-up was lost at " << n_seen;
    queue.drain([&](Sleeper&) { n_seen = n_published.load(std::memory_order_relaxed); });
  }
  for (std::thread& producer : producers) {
    producer.join();
  }
}

}  // namespace
}  // namespace millrace

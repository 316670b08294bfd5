#include "server/response_cache/flight.h"

#include <gtest/gtest.h>

#include <thread>

namespace millrace {
namespace {

TEST(WakeList, forgets_those_who_have_gone_and_wakes_the_others) {
  WakeList list;
  std::vector<int> n_wakes(100, 0);
  std::vector<std::weak_ptr<int>> owned;
  for (size_t i = 0; i < n_wakes.size(); ++i) {
    const auto mine = std::make_shared<int>(0);
    owned.push_back(mine);
    WakeList::Node& node = list.add([&n_wakes, i, mine] { ++n_wakes[i]; });
    node.is_gone = i % 3 != 0;
  }
  list.wake_all();
  int n_kept = 0;
  for (size_t i = 0; i < n_wakes.size(); ++i) {
    EXPECT_EQ(n_wakes[i], i % 3 == 0 ? 1 : 0);
    n_kept += owned[i].expired() ? 0 : 1;
    EXPECT_EQ(owned[i].expired() && i % 3 == 0, false);
  }
  EXPECT_LE(n_kept, 34 + 1);  // the newest may stay
  list.wake_all();
  EXPECT_EQ(n_wakes[0], 2);
}

TEST(WakeList, is_used_by_many_while_one_wakes) {
  WakeList list;
  std::atomic<int> n_wakes{0};
  std::atomic<bool> is_over{false};
  std::thread waking([&] {
    while (!is_over) {
      list.wake_all();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto seen = std::make_shared<std::atomic<bool>>(false);
        WakeList::Node& node =
            list.add([&n_wakes, seen] { n_wakes += seen->exchange(true) ? 0 : 1; });
        while (!*seen) {
          std::this_thread::yield();
        }
        node.is_gone.store(true, std::memory_order_release);
      }
    });
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  is_over = true;
  waking.join();
  EXPECT_EQ(n_wakes, 600);
}

}  // namespace
}  // namespace millrace

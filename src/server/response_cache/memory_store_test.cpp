#include "server/response_cache/memory_store.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace millrace {
namespace {

Digest256 key(int n) {
  return {static_cast<std::byte>(n), static_cast<std::byte>(n >> 8)};
}

SharedRecord record(size_t n_bytes, char fill = 'x') {
  auto text = std::make_shared<std::string>(n_bytes, fill);
  text->shrink_to_fit();
  return text;
}

class MemoryStoreTest : public testing::Test {
 protected:
  double gauge(const char* name) { return metrics_.gauge(name, "").value(); }
  double evictions() {
    return metrics_.counter("millrace_response_cache_evictions_total", "").value();
  }

  Metrics metrics_;
};

TEST_F(MemoryStoreTest, finds_what_was_put_under_exactly_that_key) {
  MemoryStore store(1 << 20, metrics_);
  store.put(key(1), record(100));
  EXPECT_EQ(*store.find(key(1)), std::string(100, 'x'));
  EXPECT_EQ(store.find(key(2)), nullptr);
  Digest256 same_bucket = key(1);
  same_bucket[31] = std::byte{1};
  EXPECT_EQ(store.find(same_bucket), nullptr);
  store.put(key(1), record(200, 'y'));
  EXPECT_EQ(*store.find(key(1)), std::string(200, 'y'));
  EXPECT_EQ(gauge("millrace_response_cache_entries"), 1);
}

TEST_F(MemoryStoreTest, never_exceeds_its_bytes_and_drops_the_least_recently_used) {
  constexpr int64_t kBytes = 20'000;
  MemoryStore store(kBytes, metrics_);
  const int64_t entry = static_cast<int64_t>(record(1000)->capacity()) + MemoryStore::kEntryBytes;
  const int n_fit = static_cast<int>(kBytes / entry);
  for (int i = 0; i < n_fit; ++i) {
    store.put(key(i), record(1000));
  }
  EXPECT_EQ(evictions(), 0);
  EXPECT_EQ(store.n_bytes(), n_fit * entry);
  EXPECT_EQ(gauge("millrace_response_cache_bytes"), static_cast<double>(n_fit * entry));
  EXPECT_NE(store.find(key(0)), nullptr);  // now the most recently used
  store.put(key(n_fit), record(1000));
  EXPECT_EQ(evictions(), 1);
  EXPECT_FALSE(store.contains(key(1)));
  EXPECT_TRUE(store.contains(key(0)));
  for (int i = 0; i < 1000; ++i) {
    store.put(key(i * 7), record(static_cast<size_t>(i * 2 + 1)));
    ASSERT_LE(store.n_bytes(), kBytes);
  }
}

TEST_F(MemoryStoreTest, does_not_keep_an_answer_that_takes_more_than_its_share) {
  MemoryStore store(80'000, metrics_);
  EXPECT_EQ(store.max_record_bytes(), 10'000u);
  store.put(key(1), record(10'001));
  store.put(key(2), record(10'000));
  EXPECT_FALSE(store.contains(key(1)));
  EXPECT_TRUE(store.contains(key(2)));
  MemoryStore none(0, metrics_);
  none.put(key(1), record(1));
  EXPECT_FALSE(none.contains(key(1)));
}

TEST_F(MemoryStoreTest, serves_many_threads) {
  MemoryStore store(100'000, metrics_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int n = (i * 31 + t * 17) % 97;
        store.put(key(n), record(static_cast<size_t>(n) * 20 + 1, static_cast<char>('a' + n % 26)));
        if (const SharedRecord found = store.find(key((n + 1) % 97))) {
          const int other = (n + 1) % 97;
          EXPECT_EQ(found->size(), static_cast<size_t>(other) * 20 + 1);
          EXPECT_EQ(found->back(), static_cast<char>('a' + other % 26));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(store.n_bytes(), 100'000);
}

}  // namespace
}  // namespace millrace

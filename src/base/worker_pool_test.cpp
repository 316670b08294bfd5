#include "base/worker_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(share, covers_every_item_once_in_order) {
  for (const std::int64_t n : {0, 1, 2, 7, 64, 1001}) {
    for (int n_workers = 1; n_workers <= 9; ++n_workers) {
      std::int64_t next = 0;
      for (int worker = 0; worker < n_workers; ++worker) {
        const Range range = share(n, worker, n_workers);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.end - range.begin, (n + n_workers - 1) / n_workers);
        next = range.end;
      }
      EXPECT_EQ(next, n);
    }
  }
}

TEST(worker_pool, every_worker_runs_each_task_once_and_results_are_visible) {
  for (int n_workers = 1; n_workers <= 5; ++n_workers) {  // more than this machine's processors too
    WorkerPool pool(n_workers);
    std::vector<std::int64_t> sums(n_workers, 0);
    for (int round = 0; round < 2000; ++round) {
      pool.run([&](int worker) { sums[worker] += round; });
    }
    for (const std::int64_t sum : sums) {
      EXPECT_EQ(sum, 1999 * 2000 / 2);
    }
  }
}

TEST(worker_pool, tasks_see_what_the_previous_task_of_other_workers_wrote) {
  WorkerPool pool(3);
  std::vector<int> values(3, 0);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int> next(3);
    pool.run([&](int worker) { next[worker] = values[(worker + 1) % 3] + 1; });
    values = next;
  }
  EXPECT_EQ(values, (std::vector<int>{3000, 3000, 3000}));
}

TEST(worker_pool, wakes_sleeping_workers) {
  WorkerPool pool(2);
  int n_runs = 0;
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // past the spin, into the futex
    pool.run([&](int worker) { n_runs += worker; });
  }
  EXPECT_EQ(n_runs, 5);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(worker_pool, idle_workers_take_no_processor_time) {
  WorkerPool pool(4);
  pool.run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // let them fall asleep
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.1);  // three spinning workers would take 0.6
}

TEST(WorkerPool, every_share_is_run_once_whoever_runs_it) {
  for (const int n_workers : {2, 3, 16}) {
    WorkerPool pool(n_workers);
    std::vector<int> n_runs(static_cast<size_t>(n_workers));
    for (int run = 1; run <= 2000; ++run) {
      pool.run([&](int worker) { ++n_runs[static_cast<size_t>(worker)]; });
      ASSERT_EQ(n_runs, std::vector<int>(static_cast<size_t>(n_workers), run));
    }
  }
}

TEST(WorkerPool, nobody_waits_for_a_worker_that_has_no_processor) {
  // Worker 1 is asleep or late in some of these runs; its share is done all the same.
  WorkerPool pool(2);
  int n_by_caller = 0;
  for (int run = 0; run < 20000 && n_by_caller == 0; ++run) {
    if (run % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::thread::id thread_of[2];
    pool.run([&](int worker) { thread_of[worker] = std::this_thread::get_id(); });
    n_by_caller += thread_of[1] == std::this_thread::get_id() ? 1 : 0;
  }
  EXPECT_GT(n_by_caller, 0);
}

}  // namespace
}  // namespace millrace

#include "base/worker_pool.h"

#include "base/check.h"
#include "base/spin_pause.h"

namespace millrace {
namespace {

// A waiting thread polls for some 20 us, as long as phases differ; then it offers its processor to
// others between polls, since the thread it waits for may not be running on a busy machine; after
// about 200 us in all a worker sleeps.
constexpr int kSpins = 2'000;
constexpr int kYields = 500;

void wait_briefly(bool is_spinning) {
  if (is_spinning) {
    spin_pause();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace

Range share(std::int64_t n, int worker, int n_workers) {
  const std::int64_t base = n / n_workers;
  const std::int64_t longer = n % n_workers;
  const std::int64_t begin = worker * base + (worker < longer ? worker : longer);
  return {begin, begin + base + (worker < longer ? 1 : 0)};
}

WorkerPool::WorkerPool(int n_workers)
    : n_workers_(n_workers),
      n_spins_(n_workers <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins : 0),
      claims_(static_cast<std::size_t>(n_workers)) {
  MR_CHECK(n_workers >= 1, "n_workers {}", n_workers);
  threads_.reserve(n_workers - 1);
  for (int worker = 1; worker < n_workers; ++worker) {
    threads_.emplace_back([this, worker] { work(worker); });
  }
}

WorkerPool::~WorkerPool() {
  is_stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  generation_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void WorkerPool::run_erased(Trampoline trampoline, const void* task) {
  if (n_workers_ == 1) {
    trampoline(task, 0);
    return;
  }
  trampoline_ = trampoline;
  task_ = task;
  n_running_.store(n_workers_, std::memory_order_relaxed);
  // seq_cst pairs with the sleeper's increment: either it sees the new generation or we see it.
  const std::uint32_t generation = generation_.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (n_sleeping_.load(std::memory_order_seq_cst) != 0) {
    generation_.notify_all();
  }
  run_shares(generation, 0);
  for (int poll = 0; n_running_.load(std::memory_order_acquire) != 0; ++poll) {
    wait_briefly(poll < n_spins_);
  }
}

void WorkerPool::work(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    seen = wait_for_generation(seen);
    if (is_stopping_.load(std::memory_order_relaxed)) {
      return;
    }
    run_shares(seen, worker);
  }
}

// All shares of the task that nobody has taken yet, from worker `first` on. A thread that comes
// late finds none: the claims of a task are made before the next one starts. So whoever makes a
// claim reads the task it belongs to.
void WorkerPool::run_shares(std::uint32_t generation, int first) {
  for (int i = 0; i < n_workers_; ++i) {
    const int worker = (first + i) % n_workers_;
    std::atomic<std::uint32_t>& claim = claims_[static_cast<std::size_t>(worker)].generation;
    std::uint32_t last = generation - 1;
    if (claim.load(std::memory_order_relaxed) != last ||
        !claim.compare_exchange_strong(last, generation, std::memory_order_relaxed)) {
      continue;
    }
    trampoline_(task_, worker);
    n_running_.fetch_sub(1, std::memory_order_release);
  }
}

std::uint32_t WorkerPool::wait_for_generation(std::uint32_t seen) {
  for (int poll = 0; poll < n_spins_ + kYields; ++poll) {
    const std::uint32_t now = generation_.load(std::memory_order_acquire);
    if (now != seen) {
      return now;
    }
    wait_briefly(poll < n_spins_);
  }
  n_sleeping_.fetch_add(1, std::memory_order_seq_cst);
  while (generation_.load(std::memory_order_seq_cst) == seen) {
    generation_.wait(seen, std::memory_order_seq_cst);
  }
  n_sleeping_.fetch_sub(1, std::memory_order_relaxed);
  return generation_.load(std::memory_order_acquire);
}

}  // namespace millrace

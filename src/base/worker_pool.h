#pragma once
// Fork-join over a fixed set of threads. The thread that calls run() is worker 0.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace millrace {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The contiguous static share of n items for one worker; the first n % n_workers shares are one
// longer. The same split for the same arguments, so memory stays with the thread that touched it.
Range share(std::int64_t n, int worker, int n_workers);

// run() has a task done for every worker and returns when all is done, which makes it the barrier
// between two phases of a step (about 1 us while the workers are awake). Each thread takes its own
// share first and then any that nobody has taken: on a busy machine, where a worker may not get a
// processor for many phases, the others do its share and nobody waits for it. Between tasks a
// worker spins for a bounded time, then sleeps on a futex, so an idle pool takes no CPU. With more
// workers than processors the spin yields at once.
//
// One thread at a time may call run(); tasks must not throw and must not call run().
class WorkerPool {
 public:
  // n_workers >= 1, counting the caller of run().
  explicit WorkerPool(int n_workers);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const { return n_workers_; }

  // Runs task(worker) once for each worker = 0 .. size()-1, on whichever thread; what the tasks
  // wrote is visible to the caller.
  template <class Task>
  void run(const Task& task) {
    run_erased([](const void* erased, int worker) { (*static_cast<const Task*>(erased))(worker); },
               &task);
  }

 private:
  using Trampoline = void (*)(const void*, int);

  // The last task whose share of this worker somebody has taken.
  struct alignas(64) Claim {
    std::atomic<std::uint32_t> generation{0};
  };

  void run_erased(Trampoline trampoline, const void* task);
  void work(int worker);
  void run_shares(std::uint32_t generation, int first);
  std::uint32_t wait_for_generation(std::uint32_t seen);

  const int n_workers_;
  const int n_spins_;  // polls before a waiting thread begins to yield
  Trampoline trampoline_ = nullptr;
  const void* task_ = nullptr;
  std::atomic<bool> is_stopping_{false};  // a late worker may look while the pool is destroyed
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // bumped to start a task
  alignas(64) std::atomic<std::uint32_t> n_sleeping_{0};  // workers on the futex of generation_
  alignas(64) std::atomic<int> n_running_{0};             // shares of the task that are not done
  std::vector<Claim> claims_;                             // one a worker
  std::vector<std::thread> threads_;
};

}  // namespace millrace

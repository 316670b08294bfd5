#pragma once
// How far a load has come, on standard error while it runs: a line that renews itself on a
// terminal, else a line now and then. Any thread.

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "base/clock.h"
#include "cli/load_report.h"

namespace millrace {

struct LoadCounts {
  int n_requests = 0;
  int n_begun = 0;
  int n_ended = 0;
  int n_faulty = 0;      // of those that ended: not whole
  int64_t n_tokens = 0;  // of answers that ended
};

// "12 of 64 ended, 1 not whole, 8 under way, 1612 tokens in 12 s"
std::string load_progress_text(const LoadCounts& counts, double seconds);

class LoadProgress {
 public:
  // waits: nothing is shown before go().
  LoadProgress(int n_requests, bool is_silent, bool waits);
  ~LoadProgress();  // takes its line away
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  void begin_one() { ++n_begun_; }
  void end_one(const LoadSample& sample);
  void go() { waits_.store(false); }

 private:
  void run(const std::stop_token& stop) const;

  const int n_requests_;
  const TimePoint begin_ = Clock::now();
  std::atomic<int> n_begun_{0};
  std::atomic<int> n_ended_{0};
  std::atomic<int> n_faulty_{0};
  std::atomic<int64_t> n_tokens_{0};
  std::atomic<bool> waits_;
  std::jthread thread_;
};

}  // namespace millrace

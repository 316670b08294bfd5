#pragma once
// SIGINT and SIGTERM as a function call on a thread of their own. Make one before any other thread
// starts: the signals are blocked in the maker as long as it lives, and threads inherit that.

#include <csignal>
#include <functional>
#include <thread>

namespace millrace {

class StopSignals {
 public:
  // on_signal runs for every signal, one after another, with 1 for the first, 2 for the second and
  // so on, and SIGINT or SIGTERM.
  explicit StopSignals(std::function<void(int count, int signal)> on_signal);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  sigset_t previous_{};  // what was blocked before
  std::jthread thread_;
};

}  // namespace millrace

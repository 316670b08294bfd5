#include "cli/stop_signals.h"

#include <csignal>
#include <ctime>
#include <utility>

namespace millrace {
namespace {

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals(std::function<void(int count, int signal)> on_signal) {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, &previous_);
  thread_ = std::jthread([on_signal = std::move(on_signal)](const std::stop_token& stop) {
    const sigset_t waited = stop_set();
    const timespec period{0, 100'000'000};
    for (int count = 0; !stop.stop_requested();) {
      if (const int signal = sigtimedwait(&waited, nullptr, &period); signal > 0) {
        on_signal(++count, signal);
      }
    }
  });
}

StopSignals::~StopSignals() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace millrace

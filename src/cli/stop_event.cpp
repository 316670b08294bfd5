#include "cli/stop_event.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

namespace millrace {

StopEvent::StopEvent() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

StopEvent::~StopEvent() {
  ::close(descriptor_);
}

void StopEvent::raise() {
  is_raised_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(descriptor_, &one, sizeof(one));
}

bool StopEvent::wait_until(TimePoint time) const {
  constexpr int64_t kNanoseconds = 1'000'000'000;
  while (!is_raised()) {
    const int64_t left = std::chrono::nanoseconds(time - Clock::now()).count();
    if (left <= 0) {
      return false;
    }
    pollfd waiting{descriptor_, POLLIN, 0};
    const timespec limit{left / kNanoseconds, left % kNanoseconds};
    ::ppoll(&waiting, 1, &limit, nullptr);
  }
  return true;
}

}  // namespace millrace

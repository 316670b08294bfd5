#pragma once
// Monotonic time. Any thread.

#include <chrono>

namespace millrace {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

inline double seconds_between(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double>(end - begin).count();
}
inline double seconds_since(TimePoint begin) {
  return seconds_between(begin, Clock::now());
}

}  // namespace millrace

#pragma once
// Something that threads wait for beside what they wait for anyway. Raised once, for good. Any
// thread.

#include <atomic>

#include "base/clock.h"

namespace millrace {

class StopEvent {
 public:
  StopEvent();
  ~StopEvent();
  StopEvent(const StopEvent&) = delete;
  StopEvent& operator=(const StopEvent&) = delete;

  void raise();
  bool is_raised() const { return is_raised_.load(); }
  // Sleeps until that time, or until it is raised: then true.
  bool wait_until(TimePoint time) const;
  int descriptor() const { return descriptor_; }  // readable once it is raised

 private:
  const int descriptor_;
  std::atomic<bool> is_raised_{false};
};

}  // namespace millrace

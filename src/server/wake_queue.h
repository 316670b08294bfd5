#pragma once
// Wake-ups from any thread to one I/O thread, without a mutex. However many connections a step of
// the engine has news for, the I/O thread gets one write to its event descriptor.

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.h"

namespace millrace {

// What a wake-up is for. Its owner keeps it in a shared_ptr and clears `target` when it stops
// listening; the queue keeps it alive while it waits.
template <class Target>
class WakeQueue {
 public:
  struct Slot {
    Target* target = nullptr;  // I/O thread only
    std::atomic<bool> is_queued{false};
    std::shared_ptr<Slot> self;  // set while queued
    Slot* next = nullptr;
  };

  WakeQueue() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    MR_CHECK(descriptor_ >= 0, "eventfd failed");
  }
  ~WakeQueue() {
    drain([](Target&) {});
    ::close(descriptor_);
  }
  WakeQueue(const WakeQueue&) = delete;
  WakeQueue& operator=(const WakeQueue&) = delete;

  int descriptor() const { return descriptor_; }  // readable when drain has something to do

  // Any thread.
  void push(const std::shared_ptr<Slot>& slot) {
    if (slot->is_queued.exchange(true, std::memory_order_acq_rel)) {
      return;
    }
    slot->self = slot;
    Slot* head = head_.load(std::memory_order_relaxed);
    do {
      slot->next = head;
    } while (!head_.compare_exchange_weak(
        head, slot.get(), std::memory_order_acq_rel, std::memory_order_relaxed));
    if (head == nullptr) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = ::write(descriptor_, &one, sizeof(one));
    }
  }

  // I/O thread: calls wake(target) for every queued slot that still has a target.
  template <class Wake>
  void drain(const Wake& wake) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(descriptor_, &count, sizeof(count));
    Slot* slot = head_.exchange(nullptr, std::memory_order_acq_rel);
    while (slot != nullptr) {
      const std::shared_ptr<Slot> kept = std::move(slot->self);
      slot = slot->next;
      // An exchange, so that what a thread published before it found the slot queued is seen here.
      kept->is_queued.exchange(false, std::memory_order_acq_rel);
      if (kept->target != nullptr) {
        wake(*kept->target);
      }
    }
  }

 private:
  const int descriptor_;
  std::atomic<Slot*> head_{nullptr};
};

}  // namespace millrace

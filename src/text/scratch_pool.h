#pragma once
// Lends objects that are expensive to make and belong to one thread at a time. Lock-free, bounded:
// what does not fit is freed. Any thread.

#include <array>
#include <atomic>
#include <memory>
#include <utility>

namespace millrace {

template <class T>
class ScratchPool {
 public:
  class Lease {
   public:
    Lease(ScratchPool& pool, std::unique_ptr<T> item) : pool_(&pool), item_(std::move(item)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (item_) {
        pool_->give_back(std::move(item_));
      }
    }
    T& operator*() const { return *item_; }
    T* operator->() const { return item_.get(); }

   private:
    ScratchPool* pool_;
    std::unique_ptr<T> item_;
  };

  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() {
    for (auto& slot : slots_) {
      delete slot.load();
    }
  }

  Lease take() {
    for (auto& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == nullptr) {
        continue;
      }
      if (T* item = slot.exchange(nullptr, std::memory_order_acquire)) {
        return Lease(*this, std::unique_ptr<T>(item));
      }
    }
    return Lease(*this, std::make_unique<T>());
  }

 private:
  void give_back(std::unique_ptr<T> item) {
    for (auto& slot : slots_) {
      T* expected = nullptr;
      if (slot.compare_exchange_strong(
              expected, item.get(), std::memory_order_release, std::memory_order_relaxed)) {
        item.release();
        return;
      }
    }
  }

  static constexpr std::size_t kKept = 16;
  std::array<std::atomic<T*>, kKept> slots_{};
};

}  // namespace millrace

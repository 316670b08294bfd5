#pragma once
// How many bytes of large bodies all connections hold together, from the first byte that is read
// until the handler has made typed data of them. Any thread.

#include <atomic>
#include <cstddef>
#include <utility>

namespace millrace {

class BodyBudget {
 public:
  // Bodies of less than small_bytes do not count: the number of connections bounds them.
  BodyBudget(size_t max_bytes, size_t small_bytes)
      : max_bytes_(max_bytes), small_bytes_(small_bytes) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  size_t used() const { return used_.load(); }
  // Whether a body of that size would find room just now. Reserves nothing: what is promised takes
  // no memory, and a client that never sends it must not keep others out.
  bool has_room_for(size_t bytes) const {
    const size_t used = used_.load();
    return bytes < small_bytes_ || used == 0 || used + bytes <= max_bytes_;
  }

  // What one body takes of it. Gives it back at the end.
  class Share {
   public:
    Share() = default;
    explicit Share(BodyBudget& budget) : budget_(&budget) {}
    Share(Share&& other) noexcept
        : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      release();
      budget_ = other.budget_;
      bytes_ = std::exchange(other.bytes_, 0);
      return *this;
    }
    ~Share() { release(); }

    // False, and nothing changes, when there is no room. A body that is alone always has room.
    bool grow_to(size_t bytes) {
      if (bytes < budget_->small_bytes_ || bytes <= bytes_) {
        return true;
      }
      const size_t more = bytes - bytes_;
      size_t before = budget_->used_.load();
      do {
        if (before > bytes_ && before + more > budget_->max_bytes_) {
          return false;
        }
      } while (!budget_->used_.compare_exchange_weak(before, before + more));
      bytes_ = bytes;
      return true;
    }
    size_t bytes() const { return bytes_; }
    void release() {
      if (bytes_ > 0) {
        budget_->used_.fetch_sub(std::exchange(bytes_, 0));
      }
    }

   private:
    BodyBudget* budget_ = nullptr;
    size_t bytes_ = 0;
  };

 private:
  const size_t max_bytes_;
  const size_t small_bytes_;
  std::atomic<size_t> used_{0};
};

}  // namespace millrace

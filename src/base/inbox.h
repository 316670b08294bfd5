#pragma once
// A bounded queue from many threads to one, without a mutex: producers push onto a lock-free
// stack, the consumer takes the whole stack at once and reverses it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace millrace {

template <class T>
class Inbox {
 public:
  explicit Inbox(std::size_t capacity) : capacity_(capacity) {}
  ~Inbox() {
    std::vector<T> rest;
    drain(rest);
  }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Any thread. False, and item untouched, when capacity items wait already.
  bool try_push(T&& item) {
    if (n_waiting_.fetch_add(1, std::memory_order_relaxed) >= capacity_) {
      n_waiting_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    push_node(new Node{std::move(item), nullptr});
    return true;
  }

  // Any thread. For messages that must not be lost (a cancel); does not respect the capacity.
  void push_always(T&& item) {
    n_waiting_.fetch_add(1, std::memory_order_relaxed);
    push_node(new Node{std::move(item), nullptr});
  }

  // Consumer. Appends everything that waits, oldest first; returns whether there was anything.
  bool drain(std::vector<T>& out) {
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    Node* oldest = nullptr;
    while (node != nullptr) {
      Node* next = node->next;
      node->next = oldest;
      oldest = node;
      node = next;
    }
    const bool found = oldest != nullptr;
    while (oldest != nullptr) {
      out.push_back(std::move(oldest->item));
      n_waiting_.fetch_sub(1, std::memory_order_relaxed);
      delete std::exchange(oldest, oldest->next);
    }
    return found;
  }

  // Consumer. Sleeps until something waits or wake() was called since the last wait().
  void wait() {
    while (head_.load(std::memory_order_acquire) == nullptr) {
      const std::uint32_t seen = signal_.load(std::memory_order_acquire);
      if (head_.load(std::memory_order_acquire) != nullptr || seen != last_signal_) {
        break;
      }
      signal_.wait(seen, std::memory_order_acquire);
    }
    last_signal_ = signal_.load(std::memory_order_acquire);
  }

  // Any thread. Ends a wait() although nothing was pushed.
  void wake() {
    signal_.fetch_add(1, std::memory_order_release);
    signal_.notify_one();
  }

  std::size_t size() const { return n_waiting_.load(std::memory_order_relaxed); }
  std::size_t capacity() const { return capacity_; }

 private:
  struct Node {
    T item;
    Node* next;
  };

  void push_node(Node* node) {
    node->next = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(
        node->next, node, std::memory_order_release, std::memory_order_relaxed)) {
    }
    wake();
  }

  const std::size_t capacity_;
  std::atomic<std::size_t> n_waiting_{0};
  std::atomic<Node*> head_{nullptr};
  std::atomic<std::uint32_t> signal_{0};
  std::uint32_t last_signal_ = 0;  // consumer only
};

}  // namespace millrace

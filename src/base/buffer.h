#pragma once
// Large zeroed memory for weights, KV and scratch. Move-only; any thread may read what it may.

#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"

namespace millrace {

// Anonymous mapped memory, 64-byte aligned (2 MiB aligned and advised as huge pages from 2 MiB on).
// Pages arrive zeroed and are placed by the thread that touches them first.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // kResourceExhausted when the system refuses. For sizes that come from outside.
  static Result<Buffer> try_allocate(std::size_t n_bytes);
  // Stops the process when the system refuses: for small and fixed sizes.
  static Buffer allocate(std::size_t n_bytes);

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapping_size_, other.mapping_size_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  void* mapping_ = nullptr;  // what munmap gets back
  std::size_t mapping_size_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace millrace

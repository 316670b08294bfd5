#pragma once
// A file mapped read-only. Any thread may read the bytes.

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace millrace {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    MappedFile taken(std::move(other));
    swap(taken);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Regular files only. Errors: kNotFound, kIo; both name the path. An empty file has no bytes.
  static Result<MappedFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Gives the resident pages back to the system; reading them again loads them from the file. Of
  // n_bytes from offset on, those that fill whole pages; what lies beyond the end does not count.
  void drop_pages(std::size_t offset, std::size_t n_bytes) const;
  void drop_pages() const { drop_pages(0, size_); }

 private:
  void swap(MappedFile& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace millrace

#pragma once
// Files that a user names, opened for reading: regular ones only, since a pipe may never be written
// to and a device may never end. Any thread.

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"

namespace millrace {

class RegularFile {
 public:
  // Never waits. Errors: kNotFound, kIo; both begin with the path and say what lies there instead.
  static Result<RegularFile> open(const std::string& path);
  RegularFile(RegularFile&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  int descriptor() const { return descriptor_; }
  std::size_t size() const { return size_; }

 private:
  RegularFile(int descriptor, std::size_t size) : descriptor_(descriptor), size_(size) {}

  int descriptor_;
  std::size_t size_;  // when it was opened
};

// The text of a whole file, without the byte order mark that some editors put in front. Errors: as
// RegularFile::open; kIo if it cannot be read or is longer than max_bytes.
Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes);

// What is left in a descriptor up to its end: a file, or a pipe that is waited for. kIo, beginning
// with the name, if it cannot be read or there is more than max_bytes.
Result<std::string> read_to_end(int descriptor, const std::string& name, std::size_t max_bytes);

}  // namespace millrace

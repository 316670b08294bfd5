#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace {
namespace {

// Closes the descriptor on every way out.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, "[file] {}: {}", path, std::strerror(errno));
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::kIo, "[file] {}: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kIo, "[file] {}: expected a regular file", path);
  }
  MappedFile mapped;
  mapped.path_ = path;
  if (status.st_size == 0) {
    return mapped;
  }
  mapped.size_ = static_cast<std::size_t>(status.st_size);
  void* address = mmap(nullptr, mapped.size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    mapped.size_ = 0;
    return fail(ErrorCode::kIo, "[file] {}: mmap: {}", path, std::strerror(errno));
  }
  mapped.data_ = static_cast<const std::byte*>(address);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    munmap(const_cast<std::byte*>(data_), size_);
  }
}

void MappedFile::drop_pages(std::size_t offset, std::size_t n_bytes) const {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // Only whole pages inside the range: the neighbours' bytes may be in use.
  const std::size_t begin = (std::min(offset, size_) + page - 1) / page * page;
  const std::size_t wanted_end = std::min(size_, offset + std::min(n_bytes, size_));
  const std::size_t end = wanted_end == size_ ? size_ : wanted_end / page * page;
  if (begin < end) {
    madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace millrace

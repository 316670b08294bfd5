#include "base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/regular_file.h"

namespace millrace {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const auto file = RegularFile::open(path);
  if (!file) {
    return propagate(file);
  }
  MappedFile mapped;
  mapped.path_ = path;
  if (file->size() == 0) {
    return mapped;
  }
  void* address = mmap(nullptr, file->size(), PROT_READ, MAP_SHARED, file->descriptor(), 0);
  if (address == MAP_FAILED) {
    return fail(ErrorCode::kIo, "{}: mmap: {}", path, std::strerror(errno));
  }
  mapped.size_ = file->size();
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

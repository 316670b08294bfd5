#include "base/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace millrace {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Buffer Buffer::allocate(std::size_t n_bytes) {
  Buffer buffer;
  if (n_bytes == 0) {
    return buffer;
  }
  const bool is_huge = n_bytes >= kHugePage;
  buffer.mapping_size_ = n_bytes + (is_huge ? kHugePage : 0);
  buffer.mapping_ = mmap(nullptr,
                         buffer.mapping_size_,
                         PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1,
                         0);
  MR_CHECK(buffer.mapping_ != MAP_FAILED, "mmap of {} bytes: {}", n_bytes, std::strerror(errno));
  auto address = reinterpret_cast<std::uintptr_t>(buffer.mapping_);
  if (is_huge) {
    address = (address + kHugePage - 1) / kHugePage * kHugePage;
    madvise(reinterpret_cast<void*>(address), n_bytes, MADV_HUGEPAGE);  // advice; may be refused
  }
  buffer.data_ = reinterpret_cast<std::byte*>(address);
  buffer.size_ = n_bytes;
  return buffer;
}

Buffer::~Buffer() {
  if (mapping_ != nullptr) {
    munmap(mapping_, mapping_size_);
  }
}

}  // namespace millrace

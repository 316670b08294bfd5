#include "base/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/human_bytes.h"

namespace millrace {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Result<Buffer> Buffer::try_allocate(std::size_t n_bytes) {
  Buffer buffer;
  if (n_bytes == 0) {
    return buffer;
  }
  const bool is_huge = n_bytes >= kHugePage;
  const std::size_t n_extra = is_huge ? kHugePage : 0;
  if (n_bytes > SIZE_MAX - n_extra) {
    return fail(ErrorCode::kResourceExhausted, "no address space has {} bytes", n_bytes);
  }
  void* mapping = mmap(nullptr,
                       n_bytes + n_extra,
                       PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1,
                       0);
  if (mapping == MAP_FAILED) {
    return fail(ErrorCode::kResourceExhausted,
                "the system refuses {} of memory: {}",
                human_bytes(n_bytes),
                std::strerror(errno));
  }
  buffer.mapping_ = mapping;
  buffer.mapping_size_ = n_bytes + n_extra;
  auto address = reinterpret_cast<std::uintptr_t>(mapping);
  if (is_huge) {
    address = (address + kHugePage - 1) / kHugePage * kHugePage;
    madvise(reinterpret_cast<void*>(address), n_bytes, MADV_HUGEPAGE);  // advice; may be refused
  }
  buffer.data_ = reinterpret_cast<std::byte*>(address);
  buffer.size_ = n_bytes;
  return buffer;
}

Buffer Buffer::allocate(std::size_t n_bytes) {
  auto buffer = try_allocate(n_bytes);
  MR_CHECK(buffer, "{}", buffer.error().message);
  return *std::move(buffer);
}

Buffer::~Buffer() {
  if (mapping_ != nullptr) {
    munmap(mapping_, mapping_size_);
  }
}

}  // namespace millrace

#include "kv/kv_memory.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

// Half of the 47-bit address space: more cannot be mapped.
constexpr size_t kMaxArenaBytes = size_t{1} << 46;

}  // namespace

size_t kv_block_bytes(PageFormat format, int n_layers, int n_kv_heads) {
  return format.bytes() * size_t(n_layers) * size_t(n_kv_heads);
}

Result<KvMemory> KvMemory::create(PageFormat format,
                                  int n_layers,
                                  int n_kv_heads,
                                  int64_t n_blocks) {
  if (format.head_dim <= 0 || format.head_dim % 2 != 0 || n_layers <= 0 || n_kv_heads <= 0 ||
      n_blocks <= 0) {
    return fail(ErrorCode::kInvalidArgument,
                "[kv] head_dim {} (even), layers {}, kv heads {}, blocks {}: each must be above 0",
                format.head_dim,
                n_layers,
                n_kv_heads,
                n_blocks);
  }
  const size_t block_bytes = kv_block_bytes(format, n_layers, n_kv_heads);
  if (size_t(n_blocks) > kMaxArenaBytes / block_bytes) {
    return fail(ErrorCode::kResourceExhausted,
                "[kv] {} blocks of {} bytes do not fit the address space",
                n_blocks,
                block_bytes);
  }
  auto arena = Buffer::try_allocate(block_bytes * size_t(n_blocks));
  if (!arena) {
    return fail(arena.error().code, "[kv] {} blocks: {}", n_blocks, arena.error().message);
  }
  KvMemory memory;
  memory.arena_ = *std::move(arena);
  memory.format_ = format;
  memory.n_layers_ = n_layers;
  memory.n_kv_heads_ = n_kv_heads;
  memory.n_blocks_ = n_blocks;
  memory.page_bytes_ = format.bytes();
  memory.block_bytes_ = block_bytes;
  return memory;
}

void KvMemory::copy_block(BlockId from, BlockId to) {
  MR_CHECK(from < n_blocks_ && to < n_blocks_, "from {} to {} of {}", from, to, n_blocks_);
  if (from != to) {
    std::ranges::copy(block(from), block(to).begin());
  }
}

}  // namespace millrace

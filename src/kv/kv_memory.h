#pragma once
// The arena that holds every KV page of a model. The engine thread creates it; kernels on the
// workers write the tokens of their own sequences and read any page.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/result.h"
#include "base/types.h"
#include "kernels/kv_page.h"

namespace millrace {

// A block (BlockId) is the same 64 tokens over all layers and KV heads. BlockPool hands out the
// ids.

class KvMemory {
 public:
  // Memory is reserved here and committed by the operating system when a block is first written.
  // Everything is above 0 and head_dim even, else kInvalidArgument. kResourceExhausted when the
  // size overflows or cannot be reserved.
  static Result<KvMemory> create(PageFormat format, int n_layers, int n_kv_heads, int64_t n_blocks);

  const PageFormat& format() const { return format_; }
  int n_layers() const { return n_layers_; }
  int n_kv_heads() const { return n_kv_heads_; }
  int64_t n_blocks() const { return n_blocks_; }
  size_t block_bytes() const { return block_bytes_; }

  // format().bytes() of them, at a multiple of 64. Pages of a block lie as [layer][kv_head].
  std::byte* page(BlockId block, int layer, int kv_head) {
    return arena_.data() + size_t(block) * block_bytes_ +
           (size_t(layer) * size_t(n_kv_heads_) + size_t(kv_head)) * page_bytes_;
  }
  // All pages of a block, block_bytes(), for copies, tiers and transfer.
  std::span<std::byte> block(BlockId block) {
    return {arena_.data() + size_t(block) * block_bytes_, block_bytes_};
  }
  // Copy on write of a shared tail block: all of its bytes.
  void copy_block(BlockId from, BlockId to);

 private:
  KvMemory() = default;

  Buffer arena_;
  PageFormat format_;
  int n_layers_ = 0;
  int n_kv_heads_ = 0;
  int64_t n_blocks_ = 0;
  size_t page_bytes_ = 0;
  size_t block_bytes_ = 0;
};

// Bytes one block takes, for memory plans before anything is allocated.
size_t kv_block_bytes(PageFormat format, int n_layers, int n_kv_heads);

}  // namespace millrace

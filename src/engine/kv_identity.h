#pragma once
// What the content of KV blocks depends on besides tokens and salt, as one key: blocks that another
// process kept are good here if and only if it had the same. Reads all weights, on the workers.

#include "base/result.h"
#include "base/worker_pool.h"
#include "kernels/isa.h"
#include "kernels/kv_page.h"
#include "kv/block_key.h"

namespace millrace {

struct ModelFiles;

// The files' metadata and every byte of their tensors, the type of the pages, the instruction set,
// and this very program with the C library that it runs on: another build may round differently.
// draft: whose KV lies in the same blocks; null: none.
Result<BlockKey> kv_identity(const ModelFiles& files,
                             const ModelFiles* draft,
                             KvType type,
                             kernels::Isa isa,
                             WorkerPool& workers);

}  // namespace millrace

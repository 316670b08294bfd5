#pragma once
// What the content of KV blocks depends on besides tokens and salt, as one key: blocks that another
// process kept are good here if and only if it had the same. Reads all weights, on the workers.

#include <optional>

#include "base/result.h"
#include "base/worker_pool.h"
#include "kernels/isa.h"
#include "kernels/kv_page.h"
#include "kv/block_key.h"

namespace millrace {

struct ModelFiles;

// The files' metadata and every byte of their tensors, the pages of each model, the instruction
// set, this very program, and what the C library computes here: another build may round
// differently.
// draft: whose KV lies in the same blocks; null: none. type: as page_format has it; so are errors.
Result<BlockKey> kv_identity(const ModelFiles& files,
                             const ModelFiles* draft,
                             std::optional<KvType> type,
                             kernels::Isa isa,
                             WorkerPool& workers);

}  // namespace millrace

#pragma once
// What an engine takes in memory, decided before anything is loaded: weights, scratch, logits, and
// how much goes to the KV cache and what that is good for. Any thread.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "kernels/kv_page.h"

namespace millrace {

struct EngineOptions;
struct ModelFiles;

// Without --kv-memory the cache may take this share of the memory that the model leaves free, but
// no more than max_sequences sequences of full length need.
inline constexpr double kKvShareOfFreeMemory = 0.5;
// A billion tokens: what the tables beside the blocks are good for.
inline constexpr int64_t kMaxBlocks = int64_t{1} << 24;

struct MemoryPlanInput {
  int64_t weight_bytes = 0;
  int64_t scratch_bytes = 0;  // buffers of a forward pass, of all workers; a draft model's logits
  int64_t logits_bytes = 0;   // of a step
  KvType kv_type = KvType::kBF16;
  int64_t block_bytes = 0;                 // kv_block_bytes()
  int64_t block_table_bytes = 0;           // what is known of a block and of the tokens in it
  int64_t fixed_table_bytes = 0;           // what does not depend on the number of blocks
  std::optional<int64_t> free_bytes = {};  // before loading; absent: not known
  int64_t context_length = 0;              // the model's window
  int max_sequences = 1;
  std::optional<int64_t> max_model_len = {};  // asked for
  std::optional<int64_t> kv_memory = {};      // asked for, bytes
};

struct MemoryPlan {
  int64_t weight_bytes = 0;
  int64_t scratch_bytes = 0;
  int64_t logits_bytes = 0;
  int64_t table_bytes = 0;  // prefix index, block tables, n-grams, sampling and step buffers
  KvType kv_type = KvType::kBF16;
  int64_t block_bytes = 0;
  int64_t n_blocks = 0;
  int64_t max_model_len = 0;

  int64_t kv_bytes() const { return n_blocks * block_bytes; }
  int64_t total_bytes() const {
    return weight_bytes + scratch_bytes + logits_bytes + table_bytes + kv_bytes();
  }
  int64_t kv_bytes_per_token() const;
  // Sequences of n_tokens that are in memory at once; a block is not shared here.
  int64_t n_sequences_that_fit(int64_t n_tokens) const;
  // "weights 512 MiB, scratch 20.5 MiB, tables 6.1 MiB, KV 1.2 GiB in bf16 at 12.5 KiB a token: 4
  // sequences of 8192 tokens" (logits count as scratch here).
  std::string describe() const;
};

// kInvalidArgument for an option out of range, kResourceExhausted when the model, the KV memory
// that was asked for, or one sequence of max_model_len does not fit; the message tells both sizes.
Result<MemoryPlan> plan_memory(const MemoryPlanInput& input);

// The plan of Engine::create, from the files alone. draft: the draft model's, whose KV lies beside
// the target's, block by block; null: none.
Result<MemoryPlan> plan_memory(const ModelFiles& files,
                               const EngineOptions& options,
                               const ModelFiles* draft = nullptr);

// What this process may still take: MemAvailable, less if its cgroups grant less. Absent: unknown.
std::optional<int64_t> free_memory_bytes();

}  // namespace millrace

#pragma once
// How much memory goes to the KV cache, and what that is good for. Plain arithmetic, any thread.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "kernels/kv_page.h"
#include "model/model_spec.h"

namespace millrace {

// Without --kv-memory the cache may take this share of the memory that is free once the weights
// are loaded, but no more than max_sequences sequences of full length need.
inline constexpr double kKvShareOfFreeMemory = 0.5;

struct MemoryPlanInput {
  int64_t weight_bytes = 0;    // for the report only
  int64_t block_bytes = 0;     // kv_block_bytes()
  int64_t free_bytes = 0;      // after the weights are loaded
  int64_t context_length = 0;  // the model's window
  int max_sequences = 1;
  std::optional<int64_t> max_model_len = {};  // asked for
  std::optional<int64_t> kv_memory = {};      // asked for, bytes
};

struct MemoryPlan {
  int64_t weight_bytes = 0;
  int64_t block_bytes = 0;
  int64_t n_blocks = 0;
  int64_t max_model_len = 0;

  int64_t kv_bytes() const { return n_blocks * block_bytes; }
  int64_t kv_bytes_per_token() const;
  // Sequences of n_tokens that are in memory at once; a block is not shared here.
  int64_t n_sequences_that_fit(int64_t n_tokens) const;
  // "weights 512 MiB, KV 1.2 GiB at 12.5 KiB a token: 4 sequences of 8192 tokens"
  std::string describe() const;
};

// kInvalidArgument or kResourceExhausted when not even one sequence of max_model_len fits; the
// message says what would help.
Result<MemoryPlan> plan_memory(const MemoryPlanInput& input);

// What this process may still take: MemAvailable, less if its cgroups grant less.
int64_t free_memory_bytes();

}  // namespace millrace

#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/cgroup.h"
#include "base/human_bytes.h"
#include "kv/block_pool.h"

namespace millrace {
namespace {

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  std::string unit;
  while (file >> key >> kib && std::getline(file, unit)) {
    if (key == "MemAvailable:") {
      return kib * 1024;
    }
  }
  return 0;
}

}  // namespace

int64_t free_memory_bytes() {
  const int64_t free = available_memory();
  return std::min(free, read_cgroup_limits().free_memory_bytes.value_or(free));
}

int64_t MemoryPlan::kv_bytes_per_token() const {
  return block_bytes / kBlockTokens;
}

int64_t MemoryPlan::n_sequences_that_fit(int64_t n_tokens) const {
  return n_blocks / std::max<int64_t>(blocks_for(n_tokens), 1);
}

std::string MemoryPlan::describe() const {
  return fmt::format("weights {}, KV {} at {} a token: {} sequences of {} tokens",
                     human_bytes(weight_bytes),
                     human_bytes(kv_bytes()),
                     human_bytes(kv_bytes_per_token()),
                     n_sequences_that_fit(max_model_len),
                     max_model_len);
}

Result<MemoryPlan> plan_memory(const MemoryPlanInput& input) {
  const int64_t window = input.context_length;
  if (input.max_model_len && (*input.max_model_len < 2 || *input.max_model_len > window)) {
    return fail(ErrorCode::kInvalidArgument,
                "max-model-len must be 2 to {} (the model's window), got {}",
                window,
                *input.max_model_len);
  }
  if (input.kv_memory && *input.kv_memory < 0) {
    return fail(ErrorCode::kInvalidArgument, "kv-memory must not be negative");
  }
  const int64_t wanted_len = input.max_model_len.value_or(window);
  const auto budget = input.kv_memory.value_or(
      static_cast<int64_t>(kKvShareOfFreeMemory * static_cast<double>(input.free_bytes)));
  int64_t n_blocks = budget / input.block_bytes;
  if (!input.kv_memory) {
    n_blocks = std::min(n_blocks, blocks_for(wanted_len) * input.max_sequences);
  }
  n_blocks = std::min<int64_t>(n_blocks, std::numeric_limits<BlockId>::max() - 1);
  MemoryPlan plan{.weight_bytes = input.weight_bytes,
                  .block_bytes = input.block_bytes,
                  .n_blocks = n_blocks,
                  .max_model_len = std::min(wanted_len, n_blocks * kBlockTokens)};
  const bool is_short = input.max_model_len ? plan.max_model_len < wanted_len : n_blocks < 1;
  if (is_short) {
    return fail(ErrorCode::kResourceExhausted,
                "one sequence of {} tokens needs {} of KV memory, {} can be had: lower "
                "max-model-len or raise kv-memory",
                wanted_len,
                human_bytes(blocks_for(wanted_len) * input.block_bytes),
                human_bytes(budget));
  }
  return plan;
}

}  // namespace millrace

#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/cgroup.h"
#include "base/human_bytes.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_limits.h"
#include "kv/block_pool.h"
#include "kv/disk_tier.h"
#include "kv/kv_memory.h"
#include "model/memory_need.h"
#include "model/weights.h"
#include "sample/sampler.h"
#include "spec/proposer.h"

namespace millrace {
namespace {

std::optional<int64_t> available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  std::string unit;
  while (file >> key >> kib && std::getline(file, unit)) {
    if (key == "MemAvailable:") {
      return kib * 1024;
    }
  }
  return std::nullopt;
}

std::string sizes_text(const MemoryPlanInput& input) {
  const int64_t others = input.scratch_bytes + input.logits_bytes + input.fixed_table_bytes;
  return fmt::format("{} of weights and {} of scratch",
                     human_bytes(static_cast<uint64_t>(input.weight_bytes)),
                     human_bytes(static_cast<uint64_t>(others)));
}

Result<void> check_input(const MemoryPlanInput& input) {
  const int64_t window = input.context_length;
  if (input.max_model_len &&
      (*input.max_model_len < kMinModelLen || *input.max_model_len > window)) {
    return fail(ErrorCode::kInvalidArgument,
                "--max-model-len must be {} to {} (the model's window), got {}",
                kMinModelLen,
                window,
                *input.max_model_len);
  }
  if (input.kv_memory && (*input.kv_memory < 0 || *input.kv_memory > kMaxKvMemory)) {
    return fail(ErrorCode::kInvalidArgument,
                "--kv-memory must be 0 to {}, got {} bytes",
                human_bytes(static_cast<uint64_t>(kMaxKvMemory)),
                *input.kv_memory);
  }
  return {};
}

// Blocks that memory allows, with their tables.
Result<int64_t> affordable_blocks(const MemoryPlanInput& input) {
  const int64_t n_asked = std::min(input.kv_memory.value_or(0) / input.block_bytes, kMaxBlocks);
  if (!input.free_bytes) {
    if (!input.kv_memory) {
      return fail(ErrorCode::kResourceExhausted,
                  "how much memory is free cannot be found out (/proc/meminfo): name the size of "
                  "the KV cache with --kv-memory");
    }
    return n_asked;
  }
  const auto free_text = human_bytes(static_cast<uint64_t>(*input.free_bytes));
  const int64_t model_bytes =
      input.weight_bytes + input.scratch_bytes + input.logits_bytes + input.fixed_table_bytes;
  if (model_bytes >= *input.free_bytes) {
    return fail(ErrorCode::kResourceExhausted,
                "the model needs {}, {} are free",
                sizes_text(input),
                free_text);
  }
  const int64_t left = *input.free_bytes - model_bytes - n_asked * input.block_table_bytes;
  if (input.kv_memory && *input.kv_memory > left) {
    return fail(ErrorCode::kResourceExhausted,
                "--kv-memory of {} was asked for: {} are free, and {} of them are left beside {}, "
                "and {} of tables for so many tokens",
                human_bytes(static_cast<uint64_t>(*input.kv_memory)),
                free_text,
                human_bytes(static_cast<uint64_t>(std::max<int64_t>(left, 0))),
                sizes_text(input),
                human_bytes(static_cast<uint64_t>(n_asked * input.block_table_bytes)));
  }
  if (input.kv_memory) {
    return n_asked;
  }
  const auto share = static_cast<int64_t>(kKvShareOfFreeMemory * static_cast<double>(left));
  return std::min(share / (input.block_bytes + input.block_table_bytes), kMaxBlocks);
}

}  // namespace

std::optional<int64_t> free_memory_bytes() {
  const std::optional<int64_t> machine = available_memory();
  const std::optional<int64_t> groups = read_cgroup_limits().free_memory_bytes;
  return machine && groups ? std::min(*machine, *groups) : (machine ? machine : groups);
}

int64_t MemoryPlan::kv_bytes_per_token() const {
  return block_bytes / kBlockTokens;
}

int64_t MemoryPlan::n_sequences_that_fit(int64_t n_tokens) const {
  return n_blocks / std::max<int64_t>(blocks_for(n_tokens), 1);
}

std::string MemoryPlan::describe() const {
  return fmt::format(
      "weights {}, scratch {}, tables {}, KV {} in {} at {} a token: {} of {} tokens",
      human_bytes(static_cast<uint64_t>(weight_bytes)),
      human_bytes(static_cast<uint64_t>(scratch_bytes + logits_bytes)),
      human_bytes(static_cast<uint64_t>(table_bytes)),
      human_bytes(static_cast<uint64_t>(kv_bytes())),
      kv_type_name(kv_type),
      human_bytes(static_cast<uint64_t>(kv_bytes_per_token())),
      counted(n_sequences_that_fit(max_model_len), "sequence"),
      max_model_len);
}

Result<MemoryPlan> plan_memory(const MemoryPlanInput& input) {
  if (auto checked = check_input(input); !checked) {
    return propagate(checked);
  }
  const auto affordable = affordable_blocks(input);
  if (!affordable) {
    return propagate(affordable);
  }
  const int64_t wanted_len = input.max_model_len.value_or(input.context_length);
  int64_t n_blocks = *affordable;
  if (!input.kv_memory) {
    n_blocks = std::min(n_blocks, blocks_for(wanted_len) * input.max_sequences);
  }
  const MemoryPlan plan{.weight_bytes = input.weight_bytes,
                        .scratch_bytes = input.scratch_bytes,
                        .logits_bytes = input.logits_bytes,
                        .table_bytes = input.fixed_table_bytes + n_blocks * input.block_table_bytes,
                        .kv_type = input.kv_type,
                        .block_bytes = input.block_bytes,
                        .n_blocks = n_blocks,
                        .max_model_len = std::min(wanted_len, n_blocks * kBlockTokens)};
  const bool is_short = input.max_model_len ? plan.max_model_len < wanted_len : n_blocks < 1;
  if (is_short && !input.max_model_len) {
    return fail(ErrorCode::kResourceExhausted,
                "{} tokens, the least that a sequence takes, need {} of KV memory, {} can be had: "
                "raise --kv-memory",
                kBlockTokens,
                human_bytes(static_cast<uint64_t>(input.block_bytes)),
                human_bytes(static_cast<uint64_t>(
                    input.kv_memory.value_or(*affordable * input.block_bytes))));
  }
  if (is_short) {
    return fail(ErrorCode::kResourceExhausted,
                "one sequence of {} tokens needs {} of KV memory, {} can be had: lower "
                "--max-model-len or raise --kv-memory",
                wanted_len,
                human_bytes(static_cast<uint64_t>(blocks_for(wanted_len) * input.block_bytes)),
                human_bytes(static_cast<uint64_t>(
                    input.kv_memory.value_or(*affordable * input.block_bytes))));
  }
  return plan;
}

namespace {

// A token of a running sequence: its id in a vector that grows by doubling, its place among the
// n-grams and its count for penalties. A beginning that sequences share counts once here.
int64_t token_table_bytes() {
  constexpr int64_t kManyTokens = 1 << 20;
  return 2 * int64_t{sizeof(TokenId)} + NgramIndex::bytes_for(kManyTokens) / kManyTokens +
         TokenHistory::kMaxBytesPerToken;
}

// What of a step's rows is kept beside their logits: questions, draws with their log probabilities.
constexpr int64_t kBytesPerRow = 512;
// A running sequence without its tokens.
constexpr int64_t kBytesPerSequence =
    4096 + int64_t{sizeof(SequenceState)} + NgramIndex::bytes_for(0);

int64_t fixed_table_bytes(const ModelFiles& files,
                          const EngineOptions& options,
                          const ModelFiles* draft) {
  const int64_t n_samplers = n_workers(options);
  int64_t bytes = n_samplers * Sampler::scratch_bytes(files.spec.n_vocab) +
                  max_step_logits(options) * kBytesPerRow +
                  max_step_tokens(options) * int64_t{sizeof(TokenId)} +
                  options.max_sequences * kBytesPerSequence;
  if (draft != nullptr) {
    bytes += n_samplers * Sampler::scratch_bytes(draft->spec.n_vocab);
  }
  return options.max_drafts > 0 ? bytes + AnswerLog::bytes_for() : bytes;
}

}  // namespace

Result<MemoryPlan> plan_memory(const ModelFiles& files,
                               const EngineOptions& options,
                               const ModelFiles* draft) {
  MemoryPlanInput input{
      .logits_bytes = max_step_logits(options) * Executor::bytes_per_row(files.spec),
      .block_table_bytes =
          static_cast<int64_t>(Scheduler::bytes_per_block()) + kBlockTokens * token_table_bytes(),
      .fixed_table_bytes = fixed_table_bytes(files, options, draft),
      .free_bytes = free_memory_bytes(),
      .context_length = files.spec.context_length,
      .max_sequences = options.max_sequences,
      .max_model_len = options.max_model_len,
      .kv_memory = options.kv_memory};
  const auto add = [&](const ModelFiles& model) -> Result<void> {
    const ModelSpec& spec = model.spec;
    const auto format = page_format(*model.checkpoint, spec, options.kv_type);
    if (!format) return propagate(format);
    const MemoryNeed need = memory_need(*model.checkpoint,
                                        spec,
                                        *format,
                                        max_step_tokens(options),
                                        options.isa.value_or(kernels::detect_isa()));
    input.weight_bytes += static_cast<int64_t>(need.weight_bytes);
    input.scratch_bytes += static_cast<int64_t>(need.scratch.total(n_workers(options)));
    input.block_bytes +=
        static_cast<int64_t>(kv_block_bytes(*format, spec.n_layers, spec.n_kv_heads));
    return {};
  };
  input.kv_type = options.kv_type.value_or(default_kv_type(*files.checkpoint));
  if (auto added = add(files); !added) return propagate(added);
  if (draft != nullptr) {
    if (auto added = add(*draft); !added) return propagate(added);
    input.scratch_bytes += options.max_sequences * Executor::bytes_per_row(draft->spec);
  }
  if (!options.kv_disk.empty()) {
    input.fixed_table_bytes += DiskTier::stage_bytes(input.block_bytes) +
                               DiskTier::table_bytes(options.kv_disk_bytes, input.block_bytes);
  }
  return plan_memory(input);
}

}  // namespace millrace

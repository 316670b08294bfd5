#include "engine/step_limits.h"

#include <algorithm>

#include "base/cpu_info.h"
#include "engine/engine.h"
#include "engine/scheduler.h"

namespace millrace {

int n_workers(const EngineOptions& options) {
  return options.n_threads > 0 ? options.n_threads : default_thread_count(read_cpu_info());
}

// A chunk always fits beside the decodes of everybody else, so neither can starve the other.
int max_step_tokens(const EngineOptions& options) {
  return std::max(options.max_batch_tokens, options.prefill_chunk + options.max_sequences);
}

int64_t max_step_logits(const EngineOptions& options) {
  return options.max_sequences + kBlockTokens;
}

SchedulerLimits scheduler_limits(const EngineOptions& options, int64_t n_blocks) {
  return {.n_blocks = n_blocks,
          .max_sequences = options.max_sequences,
          .max_batch_tokens = max_step_tokens(options),
          .prefill_chunk = options.prefill_chunk,
          .max_logits = max_step_logits(options),
          .max_overtakings = options.max_overtakings,
          .has_prefix_cache = options.has_prefix_cache,
          .fills_steps = options.fills_steps,
          .fair_quantum = options.is_fair ? max_step_tokens(options) : 0};
}

}  // namespace millrace

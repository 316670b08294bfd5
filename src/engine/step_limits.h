#pragma once
// What the options of an engine mean for its steps: by how many threads they are computed, what one
// may hold, and what the scheduler keeps to. Pure functions, any thread.

#include <cstdint>

namespace millrace {

struct EngineOptions;
struct SchedulerLimits;

// Compute threads, the engine's own among them.
int n_workers(const EngineOptions& options);

// Tokens of one step, and rows of logits.
int max_step_tokens(const EngineOptions& options);
int64_t max_step_logits(const EngineOptions& options);

// n_blocks: of the pool.
SchedulerLimits scheduler_limits(const EngineOptions& options, int64_t n_blocks);

}  // namespace millrace

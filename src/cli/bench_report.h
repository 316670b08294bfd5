#pragma once
// How bench shows what it measured, and how near that comes to what the machine can do. Plain
// functions, any thread.

#include <cstdint>
#include <string>

#include "cli/bench_rates.h"
#include "cli/json_object.h"
#include "kernels/machine_limits.h"

namespace millrace {

struct BenchReport {
  BenchSize size;
  BenchRates rates;
  kernels::MachineLimits limits;  // with the threads of the engine
  int64_t cache_bytes = 0;        // of the last level, that these threads have; 0: unknown
};

// The engine is the one that was measured. A few lines for people.
std::string bench_text(const Engine& engine, const BenchReport& report);

JsonObject bench_json(const Engine& engine, const BenchReport& report);

}  // namespace millrace

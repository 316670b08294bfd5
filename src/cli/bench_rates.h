#pragma once
// Prefill of one sequence and decoding of one or several at once, through an engine. Main thread.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace millrace {

// What is measured, in tokens of one sequence.
struct BenchSize {
  int n_prompt = 512;     // of the prefill test; 0: none
  int n_generate = 64;    // of the decode test; 0: none
  int depth = 0;          // in the cache before the decode test
  int n_sequences = 1;    // of the decode test, at once
  int n_repetitions = 5;  // of each test
};

// Tokens/s of each repetition, all sequences together; empty where there was no such test.
struct BenchRates {
  std::vector<double> prefill;
  std::vector<double> decode;
};

// Makes the tests fit a window of so many tokens and notes it on standard error. kInvalidArgument:
// the decode test has no room in it.
Result<BenchSize> fit_window(BenchSize size, int64_t window);

// The size fits the window of the engine, which has neither a prefix cache nor other requests and
// runs and queues n_sequences. kInvalidArgument: they do not fit the KV memory at once.
Result<BenchRates> measure_rates(Engine& engine, const BenchSize& size);

}  // namespace millrace

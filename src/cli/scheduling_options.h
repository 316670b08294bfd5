#pragma once
// Who is served when: the options that serve and its simulation share. Main thread.

#include <string>

#include "base/result.h"
#include "engine/engine.h"

namespace millrace {

class OptionSet;

struct SchedulingOptions {
  int max_sequences = EngineOptions{}.max_sequences;
  int max_waiting = EngineOptions{}.max_waiting;
  int max_step_ms = EngineOptions{}.max_step_ms;
  std::string policy = "latency";
  bool is_fair = false;
  bool no_prefix_cache = false;

  // keys: what the help of --fair calls those between which it shares.
  void declare(OptionSet& options, const char* keys);
  // Sets what the options ask of an engine; says which of them is wrong.
  Result<void> apply(EngineOptions& engine_options) const;
};

}  // namespace millrace

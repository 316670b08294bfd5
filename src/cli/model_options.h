#pragma once
// The options that all commands with a model share, and what they open. Main thread.

#include <memory>
#include <optional>
#include <string>

#include "base/metrics.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"

namespace millrace {

class OptionSet;

inline constexpr const char* kModelHelp =
    "A GGUF file (any shard of a set), a Hugging Face folder with safetensors, or demo";

struct ModelOptions {
  std::string model;  // MODEL: a path, or "demo"
  int n_threads = 0;
  std::optional<int64_t> max_model_len;
  std::optional<int64_t> kv_mebibytes;
  std::optional<std::string> kv_type;

  void declare(OptionSet& options);
  void declare_limits(OptionSet& options);  // all but MODEL
};

// A GGUF file or a Hugging Face folder, or the embedded model for "demo".
Result<ModelFiles> open_model(const std::string& model);

// The embedded model's bytes; empty when this program was built without it.
std::span<const std::byte> embedded_model();

// The model of --draft, if one is named.
Result<std::optional<ModelFiles>> open_draft(const std::optional<std::string>& draft_model);

// What the options ask of an engine, on top of `base`. Reads MILLRACE_ISA.
Result<EngineOptions> engine_options(const ModelOptions& options, EngineOptions base);

// What Engine::create will find of memory, and the first error that it would find in the options.
Result<MemoryPlan> plan_engine(const ModelFiles& files,
                               const ModelOptions& options,
                               EngineOptions base,
                               const std::optional<ModelFiles>& draft);

// Shows progress on a terminal. draft: the model of --draft; absent: none.
Result<std::unique_ptr<Engine>> start_engine(ModelFiles files,
                                             const ModelOptions& options,
                                             EngineOptions engine_options,
                                             Metrics& metrics,
                                             std::optional<ModelFiles> draft = {});

}  // namespace millrace

#include "cli/model_options.h"

#include <cstdlib>
#include <utility>

#include "cli/option_set.h"
#include "cli/progress.h"

namespace millrace {

void ModelOptions::declare(OptionSet& options) {
  options.add("MODEL", model, "A GGUF file (any shard of a set), or demo");
  options.add("-t,--threads",
              n_threads,
              0,
              1024,
              "Compute threads; 0: the physical cores that this process may use");
  options.add("--max-model-len",
              max_model_len,
              1,
              int64_t{1} << 32,
              "Tokens of prompt and answer together; default: the model's window");
  options.add("--kv-memory",
              kv_mebibytes,
              1,
              int64_t{1} << 32,
              "MiB for keys and values of all sequences; default: from the free memory");
}

Result<ModelFiles> open_model(const std::string& model) {
  if (model != "demo") {
    return open_model_files(model);
  }
  if (embedded_model().empty()) {
    return fail(
        ErrorCode::kNotFound,
        "demo: this program was built without models/demo/demo.gguf; put the file there and "
        "build again, or name a GGUF file");
  }
  return parse_model_files(embedded_model(), "demo");
}

Result<std::unique_ptr<Engine>> start_engine(ModelFiles files,
                                             const ModelOptions& options,
                                             EngineOptions engine_options,
                                             Metrics& metrics) {
  engine_options.n_threads = options.n_threads;
  engine_options.max_model_len = options.max_model_len;
  if (options.kv_mebibytes) {
    engine_options.kv_memory = *options.kv_mebibytes << 20;
  }
  if (const char* isa = std::getenv("MILLRACE_ISA"); isa != nullptr && *isa != '\0') {
    const auto parsed = kernels::isa_from_name(isa);
    if (!parsed) {
      return fail(parsed.error().code, "MILLRACE_ISA: {}", parsed.error().message);
    }
    engine_options.isa = *parsed;
  }
  Progress progress("loading");
  engine_options.on_load_progress = [&progress](double fraction) { progress.show(fraction); };
  return Engine::create(std::move(files), std::move(engine_options), metrics);
}

}  // namespace millrace

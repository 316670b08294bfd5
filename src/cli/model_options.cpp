#include "cli/model_options.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/option_set.h"
#include "cli/progress.h"
#include "kernels/kv_type_name.h"

namespace millrace {
namespace {

// The GGUF file or model's folder in the same folder, or demo, that is spelled nearly so.
std::string nearest_model(const std::string& model) {
  namespace fs = std::filesystem;
  const fs::path path(model);
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->path().extension() == ".gguf" || fs::exists(at->path() / "config.json", ignored)) {
      names.push_back(at->path().filename().string());
    }
  }
  if (!path.has_parent_path()) {
    if (path.stem() == "demo") return "demo";
    names.emplace_back("demo");
  }
  const std::string near = nearest_name(path.filename().string(), names);
  return near.empty() ? near : (path.parent_path() / near).string();
}

// The name of a model somewhere else: a URL, or as hubs have them, owner/name.
bool is_remote_name(const std::string& model) {
  if (model.find("://") != std::string::npos) return true;
  const std::filesystem::path path(model);
  std::error_code ignored;
  return path.has_parent_path() && path.extension() != ".gguf" && !path.is_absolute() &&
         !std::filesystem::exists(path.parent_path(), ignored);
}

}  // namespace

void ModelOptions::declare(OptionSet& options) {
  options.add("MODEL", model, kModelHelp);
  declare_limits(options);
}

void ModelOptions::declare_limits(OptionSet& options) {
  options.add("-t,--threads",
              n_threads,
              0,
              kMaxThreads,
              "Compute threads; 0: one for each physical core that this process may use");
  options.add("--max-model-len",
              max_model_len,
              kMinModelLen,
              INT64_MAX,
              "Tokens of prompt and answer together; default: the model's window, or what memory "
              "holds");
  options.add("--kv-memory",
              kv_mebibytes,
              1,
              kMaxKvMemory >> 20,
              "MiB for keys and values of all sequences; default: from the free memory");
  options.add(
      "--kv-type",
      kv_type,
      "How keys and values are kept: bf16, f32, int8 or fp8; default: f32 for models of F32 "
      "and F16, else bf16");
}

Result<ModelFiles> open_model(const std::string& model) {
  if (model != "demo") {
    auto files = open_model_files(model);
    std::error_code ignored;
    if (!files && files.error().code == ErrorCode::kNotFound &&
        !std::filesystem::exists(model, ignored)) {
      const std::string near = nearest_model(model);
      return fail(ErrorCode::kNotFound,
                  "{}{}",
                  files.error().message,
                  is_remote_name(model)
                      ? " (models are not downloaded: fetch a GGUF file yourself, or a folder with "
                        "safetensors, its path is the MODEL)"
                  : near.empty()
                      ? " (expected a GGUF file or a Hugging Face folder on this machine, or demo)"
                      : ", did you mean " + near + "?");
    }
    return files;
  }
  if (embedded_model().empty()) {
    return fail(
        ErrorCode::kNotFound,
        "demo: this program was built without models/demo/demo.gguf; put the file there and "
        "build again, or name a GGUF file");
  }
  return parse_model_files(embedded_model(), "demo");
}

Result<std::optional<ModelFiles>> open_draft(const std::optional<std::string>& draft_model) {
  if (!draft_model) {
    return std::optional<ModelFiles>();
  }
  auto opened = open_model(*draft_model);
  if (!opened) {
    return fail(opened.error().code, "--draft: {}", opened.error().message);
  }
  return std::optional<ModelFiles>(*std::move(opened));
}

Result<EngineOptions> engine_options(const ModelOptions& options, EngineOptions base) {
  base.n_threads = options.n_threads;
  base.max_model_len = options.max_model_len;
  if (options.kv_mebibytes) {
    base.kv_memory = *options.kv_mebibytes << 20;
  }
  if (options.kv_type) {
    const auto type = kv_type_from_name(*options.kv_type);
    if (!type) {
      const std::string& name = *options.kv_type;
      return fail(type.error().code,
                  "--kv-type: {}{}",
                  type.error().message,
                  name == "q8_0"            ? " (q8_0 is int8 here)"
                  : name == "f16"           ? " (in place of f16: bf16)"
                  : name.starts_with("fp8") ? " (fp8_e4m3 is fp8 here)"
                                            : "");
    }
    base.kv_type = *type;
  }
  if (const char* isa = std::getenv("MILLRACE_ISA"); isa != nullptr && *isa != '\0') {
    const auto parsed = kernels::isa_from_name(isa);
    if (!parsed) {
      return fail(parsed.error().code, "MILLRACE_ISA: {}", parsed.error().message);
    }
    base.isa = *parsed;
  }
  return base;
}

Result<MemoryPlan> plan_engine(const ModelFiles& files,
                               const ModelOptions& options,
                               EngineOptions base,
                               const std::optional<ModelFiles>& draft) {
  const auto all_options = engine_options(options, std::move(base));
  if (!all_options) {
    return propagate(all_options);
  }
  if (draft) {
    if (auto checked = check_draft_files(files, *draft); !checked) {
      return propagate(checked);
    }
  }
  return plan_memory(files, *all_options, draft ? &*draft : nullptr);
}

Result<std::unique_ptr<Engine>> start_engine(ModelFiles files,
                                             const ModelOptions& options,
                                             EngineOptions base,
                                             Metrics& metrics,
                                             std::optional<ModelFiles> draft) {
  auto all_options = engine_options(options, std::move(base));
  if (!all_options) {
    return propagate(all_options);
  }
  Progress progress("loading");
  all_options->on_load_progress = [&progress](double fraction) { progress.show(fraction); };
  return Engine::create(std::move(files), *std::move(all_options), metrics, std::move(draft));
}

}  // namespace millrace

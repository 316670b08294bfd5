// millrace synth: a random model of a published shape.

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/human_bytes.h"
#include "cli/command.h"
#include "cli/json_object.h"
#include "cli/note.h"
#include "cli/option_set.h"
#include "cli/progress.h"
#include "cli/stop_signals.h"
#include "formats/gguf.h"
#include "formats/synth.h"

namespace millrace {
namespace {

// Rows that are no multiple of a type's block have another type, which a benchmark should know.
void note_other_types(const std::string& path, DType asked) {
  const auto file = open_gguf(path);
  if (!file) return;
  int64_t n_all = 0;
  std::map<std::string, int64_t> n_values;
  for (const TensorView& tensor : file->tensors()) {
    if (tensor.n_dims < 2) continue;
    n_all += tensor.n_values();
    if (tensor.dtype != asked) n_values[dtype_info(tensor.dtype).name] += tensor.n_values();
  }
  for (const auto& [name, n] : n_values) {
    print_note(
        "{:.0f} % of the weights are {}: their rows are not a multiple of the {} values of a "
        "{} block\n",
        100.0 * static_cast<double>(n) / static_cast<double>(n_all),
        name,
        dtype_info(asked).block_size,
        dtype_info(asked).name);
  }
}

// A type by its name. What others call Q4_K_M is a recipe: most matrices Q4_K, some of them finer.
Result<DType> type_to_make(const std::string& name) {
  const auto dtype = dtype_from_name(name);
  if (dtype) {
    return *dtype;
  }
  const auto base = dtype_from_name(name.substr(0, name.rfind('_')));
  if (base) {
    return fail(ErrorCode::kUnsupported,
                "--type {}: mixtures of types are not made, did you mean {}?",
                name,
                dtype_info(*base).name);
  }
  return fail(dtype.error().code, "--type: {}", dtype.error().message);
}

}  // namespace

Result<int> synth_command(Arguments arguments) {
  std::string path;
  std::string type = "Q8_0";
  SynthOptions options;
  int64_t seed = 1;
  bool is_forced = false;
  bool is_json = false;
  std::string names;
  for (const ModelShape& shape : synth_shapes()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  }
  std::string types;
  for (const DTypeInfo& info : all_dtypes()) {
    types +=
        info.encode == nullptr ? "" : fmt::format("{}{}", types.empty() ? "" : ", ", info.name);
  }
  OptionSet set(
      "synth OUT [options]",
      "Writes a GGUF file of a published shape with seeded random weights, for benchmarks "
      "where no weights can be had.");
  set.add("OUT", path, "The GGUF file to write");
  set.add("--shape", options.shape, ("One of " + names).c_str());
  set.add("--type", type, ("Of the matrices, one of " + types).c_str());
  set.add("--layers", options.n_layers, 0, 1024, "As many instead of the shape's; 0: the shape's");
  set.add("--pattern",
          options.pattern_share,
          0.0,
          1.0,
          "Plant the same sequence of tokens in models of any size, which they know for this share "
          "of the tokens: a target with 1 accepts so much of what a draft model guesses; 0: none");
  set.add("--seed", seed, 0, INT64_MAX, "Same seed, same file");
  set.add("-t,--threads",
          options.n_threads,
          0,
          1024,
          "Threads that make weights; 0: one for each processor");
  set.add("--force", is_forced, "Replace OUT if it is there");
  set.add("--json", is_json, "Print one JSON object");
  const auto outcome = set.parse(arguments);
  if (!outcome) {
    return propagate(outcome);
  }
  if (*outcome == OptionSet::Outcome::kHelpShown) {
    return 0;
  }
  const auto dtype = type_to_make(type);
  if (!dtype) {
    return propagate(dtype);
  }
  std::error_code ignored;
  if (!is_forced && std::filesystem::is_regular_file(path, ignored)) {
    return fail(ErrorCode::kInvalidArgument, "{} is there already: --force replaces it", path);
  }
  options.dtype = *dtype;
  options.seed = static_cast<uint64_t>(seed);
  std::atomic<bool> is_stopped{false};
  const StopSignals signals([&](int, int) { is_stopped.store(true); });
  const TimePoint begin = Clock::now();
  int64_t n_bytes = 0;
  Progress progress(path);
  const auto written = write_synth_model(path, options, [&](int64_t done, int64_t total) {
    if (std::exchange(n_bytes, total) == 0) {
      print_note("{}: {}, {}\n", path, options.shape, human_bytes(static_cast<uint64_t>(total)));
    }
    progress.show(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1);
    return !is_stopped.load();
  });
  progress.clear();
  if (!written) {
    return propagate(written);
  }
  const double seconds = seconds_since(begin);
  if (is_json) {
    JsonObject object;
    object.add("path", path)
        .add("shape", options.shape)
        .add("type", dtype_info(options.dtype).name)
        .add("seed", seed)
        .add("bytes", n_bytes)
        .add("seconds", seconds);
    fmt::print("{}\n", object.text());
  } else {
    print_note("{}: {} in {:.1f} s\n", path, human_bytes(static_cast<uint64_t>(n_bytes)), seconds);
    note_other_types(path, options.dtype);
  }
  return 0;
}

}  // namespace millrace

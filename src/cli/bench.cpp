// millrace bench: what this machine can do at best, and how near to it sequences come through the
// engine in prefill and decode.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_caches.h"
#include "base/cpu_info.h"
#include "base/worker_pool.h"
#include "cli/bench_machine.h"
#include "cli/bench_rates.h"
#include "cli/bench_report.h"
#include "cli/bench_speculate.h"
#include "cli/command.h"
#include "cli/draft_options.h"
#include "cli/generate.h"
#include "cli/model_options.h"
#include "cli/option_set.h"
#include "cli/progress.h"
#include "cli/prompt_file.h"
#include "kernels/machine_limits.h"

namespace millrace {
namespace {

struct BenchOptions {
  std::optional<std::string> model_name;
  bool is_machine = false;
  ModelOptions model;
  BenchSize size;
  std::optional<std::string> speculate;
  DraftOptions draft;
  std::string prompts;
  bool is_json = false;

  void declare(OptionSet& options) {
    options.add("MODEL", model_name, kModelHelp);
    options.add("--machine", is_machine, "Show what the machine can do at best; needs no MODEL");
    model.declare_limits(options);
    options.add("-p,--prompt-tokens",
                size.n_prompt,
                0,
                1 << 20,
                "Tokens of the prefill test, as far as they fit; 0: none");
    options.add("-n,--tokens",
                size.n_generate,
                0,
                1 << 20,
                "Tokens of the decode test, as far as they fit; 0: none");
    options.add("-d,--depth", size.depth, 0, 1 << 20, "Tokens in the cache before the decode test");
    options.add(
        "-r,--repetitions", size.n_repetitions, 1, 1000, "Of each test; the median is shown");
    options.add(
        "--speculate",
        speculate,
        "Compare decoding with and without guesses instead: auto, ngram or draft; -n tokens "
        "an answer at most");
    draft.declare_draft(options);
    options.add("--prompts",
                prompts,
                "Prompts of --speculate, one a line, or - for standard input; default: four kinds");
    options.add("--sequences",
                size.n_sequences,
                1,
                kMaxSequences,
                "Sequences of the decode test, or answers of --speculate, made at once");
    options.add("--json", is_json, "Print one JSON object");
  }
};

kernels::MachineLimits measure_limits(int n_threads) {
  Progress progress("the machine's limits");
  progress.show("about two seconds");
  WorkerPool pool(n_threads);
  return kernels::measure_machine(pool);
}

int bench_machine(const BenchOptions& options) {
  const int asked = options.model.n_threads;
  const kernels::MachineLimits limits =
      measure_limits(asked > 0 ? asked : default_thread_count(read_cpu_info()));
  if (options.is_json) {
    fmt::print("{}\n", machine_json(limits).text());
  } else {
    fmt::print("{}", machine_text(limits));
  }
  return 0;
}

EngineOptions engine_options(const BenchSize& size) {
  EngineOptions options;
  options.max_sequences = size.n_sequences;
  options.max_waiting = std::max(options.max_waiting, size.n_sequences);  // all come at once
  options.has_prefix_cache = false;
  options.warms_up = true;
  return options;
}

Result<int> bench_speculate(const BenchOptions& options, ModelFiles files) {
  std::vector<std::string> prompts;
  if (!options.prompts.empty()) {
    auto read = read_prompt_file("--prompts", options.prompts);
    if (!read) {
      return propagate(read);
    }
    prompts = *std::move(read);
  }
  Metrics metrics;
  EngineOptions base = engine_options(options.size);
  DraftOptions draft = options.draft;
  draft.mode = *options.speculate;
  if (auto applied = draft.apply(base); !applied) {
    return propagate(applied);
  }
  auto draft_files = open_draft(draft.model);
  if (!draft_files) {
    return propagate(draft_files);
  }
  auto engine = start_engine(
      std::move(files), options.model, std::move(base), metrics, *std::move(draft_files));
  if (!engine) {
    return propagate(engine);
  }
  const auto report = bench_speculation(**engine,
                                        prompts,
                                        {.n_tokens = std::max(1, options.size.n_generate),
                                         .n_repetitions = options.size.n_repetitions,
                                         .n_sequences = options.size.n_sequences});
  if (!report) {
    return propagate(report);
  }
  fmt::print("{}{}",
             options.is_json ? speculation_json(*report).text() : speculation_text(*report),
             options.is_json ? "\n" : "");
  return 0;
}

Result<int> bench(BenchOptions asked) {
  if (!asked.model_name) {
    if (asked.is_machine) return bench_machine(asked);
    return fail(
        ErrorCode::kInvalidArgument,
        "bench needs a MODEL (a GGUF file, a Hugging Face folder, or demo), or --machine to "
        "measure the machine");
  }
  asked.model.model = *asked.model_name;
  auto files = open_model(asked.model.model);
  if (!files) {
    return propagate(files);
  }
  if (asked.speculate) {
    return bench_speculate(asked, *std::move(files));
  }
  Metrics metrics;
  EngineOptions base = engine_options(asked.size);
  // The prompts of several end soon; that of one is computed as serve does.
  base.fills_steps = asked.size.n_sequences > 1;
  base.max_drafts = 0;  // every token is to be computed
  auto started = start_engine(std::move(*files), asked.model, std::move(base), metrics);
  if (!started) {
    return propagate(started);
  }
  Engine& engine = **started;
  const auto size = fit_window(asked.size, engine.info().max_model_len);
  if (!size) {
    return propagate(size);
  }
  const auto before = measure_limits(engine.info().n_threads);
  auto rates = measure_rates(engine, *size);
  if (!rates) {
    return propagate(rates);
  }
  const int n_threads = engine.info().n_threads;
  const BenchReport report{
      .size = *size,
      .rates = *std::move(rates),
      .limits = better_of(before, measure_limits(n_threads)),
      .cache_bytes = cache_bytes_of_threads(read_cpu_info().last_level_caches, n_threads)};
  if (asked.is_json) {
    fmt::print("{}\n", bench_json(engine, report).text());
  } else {
    fmt::print("{}", bench_text(engine, report));
    if (asked.is_machine) fmt::print("\n{}", machine_text(report.limits));
  }
  return 0;
}

}  // namespace

Result<int> bench_command(Arguments arguments) {
  BenchOptions options;
  OptionSet set("bench [MODEL] [options]",
                "Prefill speed of one sequence and decode speed of one or several, medians of "
                "several runs, as shares of what this machine can do at best, which is measured "
                "before and after.");
  options.declare(set);
  return set.run(arguments, [&] { return bench(options); });
}

}  // namespace millrace

// millrace simulate: a trace of requests through the real scheduler and block pool, in virtual
// time.

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/regular_file.h"
#include "cli/command.h"
#include "cli/measured_cost.h"
#include "cli/option_set.h"
#include "cli/progress.h"
#include "cli/scheduling_options.h"
#include "cli/simulate_report.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "engine/simulation/simulation.h"
#include "engine/step_limits.h"
#include "model/model.h"

namespace millrace {
namespace {

constexpr size_t kMaxBenchBytes = size_t{16} << 20;
constexpr double kMaxMilliseconds = 1e7;
constexpr int64_t kRequestsBetweenProgress = 50;

constexpr const char* kDescription =
    "Replays a trace (JSON lines with timestamp, input_length, output_length and hash_ids, as "
    "Mooncake's, and key where keys are to be told apart) through the real scheduler and KV block "
    "pool in virtual time. No model runs: a step takes what a cost model says. The same input "
    "gives the same output, but for real seconds.\n\n"
    "cost of a step = step + token * tokens computed + attention * tokens attended to, with one "
    "attention for prompts and one for decodes; measured by millrace bench (--bench).\n\n"
    "finished: got its whole answer. refused: too long for the pool, or the queue was full.\n"
    "found: prompt tokens that were in the cache when a request first started, as a share of the "
    "prompt tokens of all that started. computed again: tokens that a preemption gave up. By key: "
    "mean ms is the mean time to the first token of those that got one.\n"
    "to first token: from the arrival to the end of the step that gave the first token. between "
    "tokens: every gap in every answer. whole answer: from the arrival to the last token. "
    "Percentiles are right to 0.1 %.\n"
    "good: finished, the first token within --ttft-slo-ms and the mean gap of the answer within "
    "--itl-slo-ms; goodput is good ones a virtual second. Virtual time runs from the first arrival "
    "to the last token. An answer's tokens are found by nobody: traces do not say what they were.";

struct SimulateOptions {
  std::string trace;
  int64_t n_requests = 0;
  double rate_scale = 1;
  int64_t tokens_per_id = kTraceBlockTokens;
  std::string bench;
  std::optional<double> step_ms;
  std::optional<double> token_ms;
  std::optional<double> decode_attention_ms;
  std::optional<double> prompt_attention_ms;
  int64_t kv_tokens = int64_t{1} << 20;
  SchedulingOptions scheduling;
  EngineOptions engine;  // but for what scheduling asks of it
  double first_token_ms = 30'000;
  double inter_token_ms = 200;
  bool is_json = false;

  void declare(OptionSet& options) {
    options.add("--trace", trace, "The trace, a file");
    options.add("-r,--requests", n_requests, 0, 1'000'000'000, "The first so many; 0: all");
    options.add("--rate-scale",
                rate_scale,
                1e-6,
                1e6,
                "Requests a second, by those of the trace; 0.5: they come half as fast");
    options.add("--tokens-per-id",
                tokens_per_id,
                1,
                kTraceBlockTokens,
                "Tokens that a hash id stands for; fewer than the format's shorten all prompts in "
                "proportion");
    declare_cost(options);
    declare_scheduler(options);
    options.add("--ttft-slo-ms",
                first_token_ms,
                0,
                kMaxMilliseconds,
                "Good requests have their first token in so many milliseconds");
    options.add("--itl-slo-ms",
                inter_token_ms,
                0,
                kMaxMilliseconds,
                "Good requests take so many milliseconds a token behind it");
    options.add("--json", is_json, "Print one JSON object");
  }

  void declare_cost(OptionSet& options) {
    options.add("--bench",
                bench,
                "The cost of a step from a file with lines of millrace bench MODEL --json, at two "
                "lengths (-p) and two depths (-d) or more; default: of a model and a machine that "
                "the output names");
    options.add("--step-ms", step_ms, 0, kMaxMilliseconds, "Milliseconds of a step");
    options.add("--token-ms",
                token_ms,
                0,
                kMaxMilliseconds,
                "Milliseconds of each token that a step computes, prompt or decode");
    options.add("--decode-attention-ms",
                decode_attention_ms,
                0,
                kMaxMilliseconds,
                "Milliseconds of a decode for each 1,000 tokens of its context");
    options.add("--prompt-attention-ms",
                prompt_attention_ms,
                0,
                kMaxMilliseconds,
                "Milliseconds of a prompt token for each 1,000 tokens before it");
  }

  void declare_scheduler(OptionSet& options) {
    options.add("--kv-tokens",
                kv_tokens,
                kBlockTokens,
                kMaxBlocks * kBlockTokens,
                "Tokens that the block pool holds");
    scheduling.declare(options, "the keys of the trace");
    options.add("--max-batch-tokens",
                engine.max_batch_tokens,
                1,
                kMaxBatchTokens / 2,
                "Tokens of a step, or what one chunk and all decodes are if that is more");
    options.add("--prefill-chunk",
                engine.prefill_chunk,
                1,
                kMaxBatchTokens / 2,
                "Prompt tokens of a request in a step; a multiple of 64 or a divisor");
    options.add("--max-overtakings",
                engine.max_overtakings,
                0,
                kMaxWaiting,
                "How often one that waits is overtaken by others that the cache serves");
  }
};

Result<MeasuredCost> cost_of(const SimulateOptions& options) {
  MeasuredCost result = reference_cost();
  if (!options.bench.empty()) {
    const auto lines = read_regular_file(options.bench, kMaxBenchBytes);
    if (!lines) {
      return fail(lines.error().code, "--bench {}", lines.error().message);
    }
    auto fitted = fit_cost(*lines);
    if (!fitted) {
      return fail(fitted.error().code, "--bench {}: {}", options.bench, fitted.error().message);
    }
    result = *std::move(fitted);
  }
  bool is_changed = false;
  const auto change = [&](double& value, const std::optional<double>& milliseconds, double per) {
    if (milliseconds) {
      value = *milliseconds / 1e3 / per;
      is_changed = true;
    }
  };
  change(result.cost.step, options.step_ms, 1);
  change(result.cost.token, options.token_ms, 1);
  change(result.cost.decode_attention, options.decode_attention_ms, 1e3);
  change(result.cost.prompt_attention, options.prompt_attention_ms, 1e3);
  if (result.cost.step + result.cost.token <= 0) {
    return fail(ErrorCode::kInvalidArgument,
                "expected --step-ms or --token-ms above 0: steps would take no time");
  }
  if (is_changed) {
    result.source += ", changed by options";
    result.largest_error = {};
  }
  return result;
}

SimulationOptions simulation_options(const SimulateOptions& options,
                                     const EngineOptions& engine,
                                     const CostModel& cost) {
  return {.limits = scheduler_limits(engine, options.kv_tokens / kBlockTokens),
          .max_step_seconds = engine.max_step_ms / 1e3,
          .max_waiting = engine.max_waiting,
          .cost = cost,
          .rate_scale = options.rate_scale,
          .first_token_limit = options.first_token_ms / 1e3,
          .inter_token_limit = options.inter_token_ms / 1e3};
}

Result<int> simulate_trace(const SimulateOptions& options) {
  if (options.trace.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "simulate needs --trace FILE (millrace simulate --help lists the options)");
  }
  if (!is_chunk_size(options.engine.prefill_chunk, kBlockTokens)) {
    return fail(ErrorCode::kInvalidArgument,
                "--prefill-chunk: expected a multiple of {} or a divisor, got {}",
                kBlockTokens,
                options.engine.prefill_chunk);
  }
  EngineOptions engine = options.engine;
  if (auto applied = options.scheduling.apply(engine); !applied) {
    return propagate(applied);
  }
  const auto measured = cost_of(options);
  if (!measured) {
    return propagate(measured);
  }
  auto trace = TraceReader::open(options.trace, engine.is_fair);
  if (!trace) {
    return fail(trace.error().code, "--trace {}", trace.error().message);
  }
  Progress progress("simulation");
  int64_t n_read = 0;
  const NextRequest next = [&]() -> Result<std::optional<TraceRequest>> {
    if (options.n_requests > 0 && n_read == options.n_requests) {
      return std::nullopt;
    }
    auto request = trace->next();
    if (!request || !*request) {
      return request;
    }
    if (++n_read % kRequestsBetweenProgress == 0) {
      progress.show(fmt::format("{} requests", n_read));
    }
    return with_tokens_per_id(**std::move(request), options.tokens_per_id);
  };
  const TimePoint begin = Clock::now();
  const auto report = simulate(simulation_options(options, engine, measured->cost), next);
  const double real_seconds = seconds_since(begin);
  progress.clear();
  if (!report) {
    return propagate(report);
  }
  if (report->n_requests == 0) {
    return fail(ErrorCode::kInvalidArgument, "--trace {}: holds no request", options.trace);
  }
  const SimulationLimits limits{.first_token_ms = options.first_token_ms,
                                .inter_token_ms = options.inter_token_ms};
  if (options.is_json) {
    fmt::print("{}\n", simulation_json(*report, *measured, limits, real_seconds));
  } else {
    fmt::print("{}", simulation_text(*report, *measured, limits, real_seconds));
  }
  return 0;
}

}  // namespace

Result<int> simulate_command(Arguments arguments) {
  SimulateOptions options;
  OptionSet set("simulate --trace FILE [options]", kDescription);
  options.declare(set);
  return set.run(arguments, [&] { return simulate_trace(options); });
}

}  // namespace millrace

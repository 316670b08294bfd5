// millrace bench: what this machine can do at best, and how near to it sequences come through the
// engine in prefill and decode.

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/cpu_info.h"
#include "base/human_bytes.h"
#include "base/worker_pool.h"
#include "cli/bench_machine.h"
#include "cli/bench_speculate.h"
#include "cli/command.h"
#include "cli/draft_options.h"
#include "cli/generate.h"
#include "cli/json_object.h"
#include "cli/median.h"
#include "cli/model_options.h"
#include "cli/note.h"
#include "cli/option_set.h"
#include "cli/progress.h"
#include "cli/prompt_file.h"
#include "kernels/machine_limits.h"
#include "model/token_cost.h"

namespace millrace {
namespace {

struct BenchOptions {
  std::optional<std::string> model_name;
  bool is_machine = false;
  ModelOptions model;
  int n_prompt = 512;
  int n_generate = 64;
  int depth = 0;
  int n_repetitions = 5;
  std::optional<std::string> speculate;
  DraftOptions draft;
  std::string prompts;
  int n_sequences = 1;
  bool is_json = false;

  void declare(OptionSet& options) {
    options.add("MODEL", model_name, "A GGUF file (any shard of a set), or demo");
    options.add("--machine", is_machine, "Show what the machine can do at best; needs no MODEL");
    model.declare_limits(options);
    options.add("-p,--prompt-tokens",
                n_prompt,
                0,
                1 << 20,
                "Tokens of the prefill test, as far as they fit; 0: none");
    options.add("-n,--tokens",
                n_generate,
                0,
                1 << 20,
                "Tokens of the decode test, as far as they fit; 0: none");
    options.add("-d,--depth", depth, 0, 1 << 20, "Tokens in the cache before the decode test");
    options.add("-r,--repetitions", n_repetitions, 1, 1000, "Of each test; the median is shown");
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
                n_sequences,
                1,
                kMaxSequences,
                "Sequences of the decode test, or answers of --speculate, made at once");
    options.add("--json", is_json, "Print one JSON object");
  }
};

// Random ids, new ones each time, so that nothing can be reused.
std::vector<TokenId> random_prompt(const Engine& engine, int n, std::mt19937_64& random) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < n; ++i) {
    prompt.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(engine.info().n_vocab)));
  }
  return prompt;
}

Result<std::shared_ptr<TokenStream>> submit(Engine& engine,
                                            std::vector<TokenId> prompt,
                                            int64_t n_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = n_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  auto stream = engine.submit(std::move(request));
  if (!stream) {
    return fail(stream.error().code, "{}", with_option_names(stream.error().message));
  }
  return stream;
}

Result<FinishEvent> wait_for_end(TokenStream& stream) {
  FinishEvent finish;
  for (StreamEvent event; stream.wait_next(event);) {
    if (auto* end = std::get_if<FinishEvent>(&event.body)) {
      finish = std::move(*end);
    }
  }
  if (finish.reason == FinishReason::kError) {
    return fail(finish.error.code, "{}", finish.error.message);
  }
  return finish;
}

// Steps that the other prompts of the decode test may take at most, while the first sequences
// decode already.
int64_t max_steps_of_prompts(int n_prompt, int n_sequences) {
  constexpr int kLeastTokens = 128;  // of prompts in a step that is filled
  return int64_t{n_sequences} * (n_prompt / kLeastTokens + 2);
}

double seconds_of(const FinishEvent& finish) {
  const RequestTimings& timings = finish.timings;
  return timings.queue_seconds + timings.prefill_seconds + timings.decode_seconds;
}

// Prompts of n_prompt tokens, of which all but the last go on until that one has its n_tokens: so
// what it takes between its first token and its last is what a step of all of them takes.
Result<FinishEvent> run(
    Engine& engine, int n_prompt, int64_t n_tokens, int n_sequences, std::mt19937_64& random) {
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < n_sequences; ++i) {
    const bool is_last = i + 1 == n_sequences;
    const int64_t n_more = is_last ? 0 : max_steps_of_prompts(n_prompt, n_sequences);
    auto stream = submit(engine, random_prompt(engine, n_prompt, random), n_tokens + n_more);
    if (!stream) {
      return propagate(stream);
    }
    streams.push_back(*std::move(stream));
  }
  auto finish = wait_for_end(*streams.back());
  streams.pop_back();
  for (const auto& stream : streams) {
    stream->cancel();
  }
  for (const auto& stream : streams) {
    const auto other = wait_for_end(*stream);
    if (!other) {
      return propagate(other);
    }
    if (finish && seconds_of(*other) < seconds_of(*finish)) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} sequences of {} tokens (--sequences) do not fit the KV memory at once",
                  n_sequences,
                  n_prompt + n_tokens);
    }
  }
  return finish;
}

// Makes the tests fit the window and says so.
Result<BenchOptions> fit_window(BenchOptions options, int64_t window) {
  if (window < 3 && options.n_generate > 0) {
    return fail(ErrorCode::kInvalidArgument,
                "a window of {} tokens leaves no room for the decode test (-n 0 skips it)",
                window);
  }
  const auto shrink = [&](const char* name, int& n, int64_t room) {
    if (n > room) {
      print_note("{} {} does not fit the window of {}: {} instead\n", name, n, window, room);
      n = static_cast<int>(room);
    }
  };
  shrink("--prompt-tokens", options.n_prompt, window - 1);
  if (options.n_generate > 0) {
    shrink("--tokens", options.n_generate, window - 2);
    const int64_t n_waiting =
        options.n_sequences > 1 ? max_steps_of_prompts(options.depth, options.n_sequences) : 0;
    const int64_t room = window - options.n_generate - 1 - n_waiting;
    if (room < 1) {
      return fail(
          ErrorCode::kInvalidArgument,
          "a window of {} tokens leaves no room for {} sequences of {} tokens (--sequences)",
          window,
          options.n_sequences,
          options.n_generate);
    }
    shrink("--depth", options.depth, room);
  }
  return options;
}

// n_prompt tokens are computed, then n_generate more than the first one are drawn, by each of
// n_sequences at once: the first belongs to the prefill. Tokens a second of all.
Result<std::vector<double>> measure(Engine& engine,
                                    const char* name,
                                    int n_prompt,
                                    int n_generate,
                                    int n_sequences,
                                    int n_repetitions,
                                    std::mt19937_64& random) {
  Progress progress(name);
  std::vector<double> rates;
  for (int i = 0; i < n_repetitions; ++i) {
    progress.show(fmt::format("{} of {}", i + 1, n_repetitions));
    const auto finish = run(engine, n_prompt, n_generate + 1, n_sequences, random);
    if (!finish) {
      return propagate(finish);
    }
    rates.push_back(n_generate > 0 ? n_sequences * decode_rate(*finish) : prefill_rate(*finish));
  }
  return rates;
}

// The medians, and how near to the machine's limits they come.
struct Findings {
  double prefill = 0;  // tokens/s
  double decode = 0;
  double prefill_share = 0;     // of the multiply-adds that the dot units could do
  double decode_bandwidth = 0;  // bytes of weights and KV read a second
  double decode_share = 0;      // of the memory bandwidth
};

Findings findings_of(const Engine& engine,
                     const BenchOptions& options,
                     const kernels::MachineLimits& limits,
                     const std::vector<double>& prefill,
                     const std::vector<double>& decode) {
  const ModelFiles& files = engine.files();
  const PageFormat format{engine.info().kv_type, files.spec.head_dim};
  const TokenCost cost = token_cost(*files.gguf, files.spec, format, engine.info().isa);
  Findings found{.prefill = median(prefill), .decode = median(decode)};
  const double least =
      least_prefill_seconds(cost, limits.peaks_of(engine.info().isa), options.n_prompt);
  found.prefill_share = found.prefill * least / std::max(1, options.n_prompt);
  const double depth = options.depth + options.n_generate / 2.0;
  const double weight_bytes = decode_bytes(cost, 0);
  const double step_bytes =
      weight_bytes + options.n_sequences * (decode_bytes(cost, depth) - weight_bytes);
  found.decode_bandwidth = found.decode / options.n_sequences * step_bytes;
  found.decode_share = found.decode_bandwidth / limits.read_all;
  return found;
}

void print_json(const Engine& engine,
                const BenchOptions& options,
                const kernels::MachineLimits& limits,
                const std::vector<double>& prefill,
                const std::vector<double>& decode) {
  const ModelInfo& info = engine.info();
  const Findings found = findings_of(engine, options, limits, prefill, decode);
  JsonObject object;
  object.add("model", info.name)
      .add("threads", info.n_threads)
      .add("isa", kernels::isa_name(info.isa))
      .add("weight_bytes", info.weight_bytes)
      .add("kv_type", kv_type_name(info.kv_type))
      .add("load_seconds", info.load_seconds)
      .add("prompt_tokens", options.n_prompt)
      .add("depth", options.depth)
      .add("tokens", options.n_generate)
      .add("sequences", options.n_sequences)
      .add("prefill_tokens_per_second", found.prefill)
      .add("prefill_share_of_peak", found.prefill_share)
      .add("decode_tokens_per_second", found.decode)
      .add("decode_bytes_per_second", found.decode_bandwidth)
      .add("decode_share_of_bandwidth", found.decode_share)
      .add("prefill_all", prefill)
      .add("decode_all", decode)
      .add("machine", machine_json(limits));
  fmt::print("{}\n", object.text());
}

void print_text(const Engine& engine,
                const BenchOptions& options,
                const kernels::MachineLimits& limits,
                const std::vector<double>& prefill,
                const std::vector<double>& decode) {
  const ModelInfo& info = engine.info();
  const Findings found = findings_of(engine, options, limits, prefill, decode);
  fmt::print("{}: {}, {}, {}, loaded in {:.2f} s\n",
             info.name,
             human_bytes(static_cast<uint64_t>(info.weight_bytes)),
             counted(info.n_threads, "thread"),
             kernels::isa_name(info.isa),
             info.load_seconds);
  if (!prefill.empty()) {
    fmt::print("prefill {:5} tokens          {:9.1f} tokens/s, {:.0f} % of the multiply peak\n",
               options.n_prompt,
               found.prefill,
               100 * found.prefill_share);
  }
  if (!decode.empty()) {
    fmt::print(
        "decode  {:5} tokens after {:5} {:6.1f} tokens/s{}, {:.1f} GB/s, {:.0f} % of the memory "
        "bandwidth\n",
        options.n_generate,
        options.depth,
        found.decode,
        options.n_sequences > 1 ? fmt::format(" of {} sequences", options.n_sequences) : "",
        found.decode_bandwidth / 1e9,
        100 * found.decode_share);
    if (found.decode_share > 1) {
      fmt::print("        more than 100 %: the weights come from the processor's caches\n");
    }
  }
  if (options.is_machine) {
    fmt::print("\n{}", machine_text(limits));
  }
}

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
  EngineOptions base;
  base.max_sequences = options.n_sequences;
  base.max_waiting = std::max(base.max_waiting, options.n_sequences);  // all are submitted at once
  base.has_prefix_cache = false;
  base.warms_up = true;
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
                                        {.n_tokens = std::max(1, options.n_generate),
                                         .n_repetitions = options.n_repetitions,
                                         .n_sequences = options.n_sequences});
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
    return fail(ErrorCode::kInvalidArgument,
                "bench needs a MODEL (a GGUF file, or demo), or --machine to measure the machine");
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
  EngineOptions base;
  base.max_sequences = asked.n_sequences;
  base.max_waiting = std::max(base.max_waiting, asked.n_sequences);  // all are submitted at once
  base.fills_steps =
      asked.n_sequences > 1;  // their prompts end soon; one is computed as serve does
  base.max_drafts = 0;        // every token is to be computed
  base.has_prefix_cache = false;
  base.warms_up = true;
  auto started = start_engine(std::move(*files), asked.model, std::move(base), metrics);
  if (!started) {
    return propagate(started);
  }
  Engine& engine = **started;
  const auto options = fit_window(asked, engine.info().max_model_len);
  if (!options) {
    return propagate(options);
  }
  const auto before = measure_limits(engine.info().n_threads);
  std::mt19937_64 random(1);
  std::vector<double> prefill;
  std::vector<double> decode;
  if (options->n_prompt > 0) {
    auto rates =
        measure(engine, "prefill", options->n_prompt, 0, 1, options->n_repetitions, random);
    if (!rates) {
      return propagate(rates);
    }
    prefill = std::move(*rates);
  }
  if (options->n_generate > 0) {
    auto rates = measure(engine,
                         "decode",
                         std::max(1, options->depth),
                         options->n_generate,
                         options->n_sequences,
                         options->n_repetitions,
                         random);
    if (!rates) {
      return propagate(rates);
    }
    decode = std::move(*rates);
  }
  const auto limits = better_of(before, measure_limits(engine.info().n_threads));
  const auto print = options->is_json ? print_json : print_text;
  print(engine, *options, limits, prefill, decode);
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

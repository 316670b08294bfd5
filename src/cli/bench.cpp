// millrace bench: prefill and decode speed of one sequence through the engine, against the speed at
// which this machine reads memory.

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/human_bytes.h"
#include "cli/command.h"
#include "cli/generate.h"
#include "cli/json_object.h"
#include "cli/model_options.h"
#include "cli/option_set.h"
#include "cli/progress.h"
#include "cli/read_bandwidth.h"

namespace millrace {
namespace {

struct BenchOptions {
  ModelOptions model;
  int n_prompt = 512;
  int n_generate = 64;
  int depth = 0;
  int n_repetitions = 5;
  bool is_json = false;

  void declare(OptionSet& options) {
    model.declare(options);
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
    options.add("--json", is_json, "Print one JSON object");
  }
};

// Tokens a second, of every repetition.
double median(std::vector<double> rates) {
  if (rates.empty()) {
    return 0;
  }
  std::sort(rates.begin(), rates.end());
  const size_t half = rates.size() / 2;
  return rates.size() % 2 == 1 ? rates[half] : (rates[half - 1] + rates[half]) / 2;
}

// Random ids, new ones each time, so that nothing can be reused.
std::vector<TokenId> random_prompt(const Engine& engine, int n, std::mt19937_64& random) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < n; ++i) {
    prompt.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(engine.info().n_vocab)));
  }
  return prompt;
}

Result<FinishEvent> run(Engine& engine, std::vector<TokenId> prompt, int64_t n_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = n_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  auto answer = generate(engine, std::move(request));
  if (!answer) {
    return propagate(answer);
  }
  return std::move(answer->finish);
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
      fmt::print(
          stderr, "{} {} does not fit the window of {}: {} instead\n", name, n, window, room);
      n = static_cast<int>(room);
    }
  };
  shrink("--prompt-tokens", options.n_prompt, window - 1);
  if (options.n_generate > 0) {
    shrink("--tokens", options.n_generate, window - 2);
    shrink("--depth", options.depth, window - options.n_generate - 1);
  }
  return options;
}

// n_prompt tokens are computed, then n_generate more than the first one are drawn: the first
// belongs to the prefill.
Result<std::vector<double>> measure(Engine& engine,
                                    const char* name,
                                    int n_prompt,
                                    int n_generate,
                                    int n_repetitions,
                                    std::mt19937_64& random) {
  Progress progress(name);
  std::vector<double> rates;
  for (int i = 0; i < n_repetitions; ++i) {
    progress.show(fmt::format("{} of {}", i + 1, n_repetitions));
    const auto finish = run(engine, random_prompt(engine, n_prompt, random), n_generate + 1);
    if (!finish) {
      return propagate(finish);
    }
    rates.push_back(n_generate > 0 ? decode_rate(*finish) : prefill_rate(*finish));
  }
  return rates;
}

// What one decoded token reads: all weights but the embedding table (one row of it), and the KV.
double bytes_per_token(const Engine& engine, const BenchOptions& options) {
  const ModelInfo& info = engine.info();
  double bytes = static_cast<double>(info.weight_bytes);
  const TensorView* embedding = engine.files().gguf->find("token_embd.weight");
  if (embedding != nullptr && !engine.files().spec.is_tied) {
    bytes -= static_cast<double>(embedding->data.size());
  }
  const double depth = options.depth + options.n_generate / 2.0;
  return bytes + depth * static_cast<double>(info.kv_bytes_per_token);
}

void print_result(const Engine& engine,
                  const BenchOptions& options,
                  const std::vector<double>& prefill,
                  const std::vector<double>& decode,
                  double bandwidth) {
  const ModelInfo& info = engine.info();
  const double decode_bandwidth = median(decode) * bytes_per_token(engine, options);
  if (options.is_json) {
    JsonObject object;
    object.add("model", info.name)
        .add("threads", info.n_threads)
        .add("isa", kernels::isa_name(info.isa))
        .add("weight_bytes", info.weight_bytes)
        .add("load_seconds", info.load_seconds)
        .add("prompt_tokens", options.n_prompt)
        .add("depth", options.depth)
        .add("tokens", options.n_generate)
        .add("prefill_tokens_per_second", median(prefill))
        .add("decode_tokens_per_second", median(decode))
        .add("prefill_all", prefill)
        .add("decode_all", decode)
        .add("read_bytes_per_second", bandwidth)
        .add("decode_bytes_per_second", decode_bandwidth)
        .add("decode_share_of_bandwidth", bandwidth > 0 ? decode_bandwidth / bandwidth : 0.0);
    fmt::print("{}\n", object.text());
    return;
  }
  fmt::print("{}: {}, {} threads, {}, loaded in {:.2f} s\n",
             info.name,
             human_bytes(static_cast<uint64_t>(info.weight_bytes)),
             info.n_threads,
             kernels::isa_name(info.isa),
             info.load_seconds);
  if (!prefill.empty()) {
    fmt::print(
        "prefill {:5} tokens          {:9.1f} tokens/s\n", options.n_prompt, median(prefill));
  }
  if (!decode.empty()) {
    fmt::print(
        "decode  {:5} tokens at {:5} {:9.1f} tokens/s, {:.1f} GB/s of {:.1f} GB/s ({:.0f} %)\n",
        options.n_generate,
        options.depth,
        median(decode),
        decode_bandwidth / 1e9,
        bandwidth / 1e9,
        100 * decode_bandwidth / bandwidth);
  }
}

Result<int> bench(const BenchOptions& asked) {
  auto files = open_model(asked.model.model);
  if (!files) {
    return propagate(files);
  }
  Metrics metrics;
  EngineOptions base;
  base.max_sequences = 1;
  base.max_drafts = 0;  // every token is to be computed
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
  std::mt19937_64 random(1);
  std::vector<double> prefill;
  std::vector<double> decode;
  if (options->n_prompt > 0) {
    auto rates = measure(engine, "prefill", options->n_prompt, 0, options->n_repetitions, random);
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
                         options->n_repetitions,
                         random);
    if (!rates) {
      return propagate(rates);
    }
    decode = std::move(*rates);
  }
  double bandwidth = 0;
  if (!decode.empty()) {
    Progress progress("memory bandwidth");
    progress.show("of this machine, about a second");
    bandwidth = measure_read_bandwidth(engine.info().n_threads);
  }
  print_result(engine, *options, prefill, decode, bandwidth);
  return 0;
}

}  // namespace

Result<int> bench_command(Arguments arguments) {
  BenchOptions options;
  OptionSet set("bench MODEL [options]",
                "Prefill and decode speed of one sequence, medians of several runs, against the "
                "speed at which this machine reads memory (measured for about a second).");
  options.declare(set);
  return set.run(arguments, [&] { return bench(options); });
}

}  // namespace millrace

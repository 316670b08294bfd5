// millrace bench: prefill and decode speed of one sequence through the engine, against the speed at
// which this machine reads memory.

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "cli/command.h"
#include "cli/json_object.h"
#include "cli/model_options.h"
#include "cli/option_set.h"
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
    options.add(
        "-p,--prompt-tokens", n_prompt, 0, 1 << 20, "Tokens of the prefill test; 0: skip it");
    options.add("-n,--tokens", n_generate, 0, 1 << 20, "Tokens of the decode test; 0: skip it");
    options.add("-d,--depth", depth, 0, 1 << 20, "Tokens in the cache before the decode test");
    options.add("-r,--repetitions", n_repetitions, 1, 1000, "Of each test; the median is shown");
    options.add("--json", is_json, "Print one JSON object");
  }
};

struct Rates {
  std::vector<double> all;  // tokens a second

  double median() const {
    if (all.empty()) {
      return 0;
    }
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    const size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  std::string json() const {
    std::string text = "[";
    for (const double rate : all) {
      text += fmt::format("{}{:.6g}", text.size() == 1 ? "" : ",", rate);
    }
    return text + "]";
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

Result<FinishEvent> run(Engine& engine, std::vector<TokenId> prompt, int64_t n_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = n_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  auto stream = engine.submit(std::move(request));
  if (!stream) {
    return propagate(stream);
  }
  FinishEvent finish;
  for (StreamEvent event; (*stream)->wait_next(event);) {
    if (auto* last = std::get_if<FinishEvent>(&event.body)) {
      finish = std::move(*last);
    }
  }
  if (finish.reason == FinishReason::kError) {
    return tl::unexpected<Error>(finish.error);
  }
  return finish;
}

Result<Rates> measure_prefill(Engine& engine,
                              const BenchOptions& options,
                              std::mt19937_64& random) {
  Rates rates;
  for (int i = 0; i < options.n_repetitions; ++i) {
    const auto finish = run(engine, random_prompt(engine, options.n_prompt, random), 1);
    if (!finish) {
      return propagate(finish);
    }
    rates.all.push_back(options.n_prompt / finish->timings.prefill_seconds);
  }
  return rates;
}

Result<Rates> measure_decode(Engine& engine, const BenchOptions& options, std::mt19937_64& random) {
  Rates rates;
  const int n_context = std::max(1, options.depth);
  for (int i = 0; i < options.n_repetitions; ++i) {
    // The first token belongs to the prefill.
    const auto finish =
        run(engine, random_prompt(engine, n_context, random), options.n_generate + 1);
    if (!finish) {
      return propagate(finish);
    }
    rates.all.push_back(static_cast<double>(finish->usage.completion_tokens - 1) /
                        finish->timings.decode_seconds);
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
                  const Rates& prefill,
                  const Rates& decode,
                  double bandwidth) {
  const ModelInfo& info = engine.info();
  const double decode_bandwidth = decode.median() * bytes_per_token(engine, options);
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
        .add("prefill_tokens_per_second", prefill.median())
        .add("decode_tokens_per_second", decode.median())
        .add_raw("prefill_all", prefill.json())
        .add_raw("decode_all", decode.json())
        .add("read_bytes_per_second", bandwidth)
        .add("decode_bytes_per_second", decode_bandwidth)
        .add("decode_share_of_bandwidth", bandwidth > 0 ? decode_bandwidth / bandwidth : 0.0);
    fmt::print("{}\n", object.text());
    return;
  }
  fmt::print("{}: {:.1f} MB, {} threads, {}, loaded in {:.2f} s\n",
             info.name,
             static_cast<double>(info.weight_bytes) / 1e6,
             info.n_threads,
             kernels::isa_name(info.isa),
             info.load_seconds);
  if (!prefill.all.empty()) {
    fmt::print(
        "prefill {:5} tokens          {:9.1f} tokens/s\n", options.n_prompt, prefill.median());
  }
  if (!decode.all.empty()) {
    fmt::print(
        "decode  {:5} tokens at {:5} {:9.1f} tokens/s, {:.1f} GB/s of {:.1f} GB/s ({:.0f} %)\n",
        options.n_generate,
        options.depth,
        decode.median(),
        decode_bandwidth / 1e9,
        bandwidth / 1e9,
        100 * decode_bandwidth / bandwidth);
  }
}

Result<int> bench(const BenchOptions& options) {
  auto files = open_model(options.model.model);
  if (!files) {
    return propagate(files);
  }
  Metrics metrics;
  EngineOptions engine_options;
  engine_options.has_prefix_cache = false;  // every prompt is to be computed
  engine_options.max_sequences = 1;
  auto started = start_engine(std::move(*files), options.model, std::move(engine_options), metrics);
  if (!started) {
    return propagate(started);
  }
  Engine& engine = **started;
  std::mt19937_64 random(1);
  if (auto warm = run(engine, random_prompt(engine, 16, random), 2); !warm) {
    return propagate(warm);
  }
  Rates prefill;
  Rates decode;
  if (options.n_prompt > 0) {
    auto rates = measure_prefill(engine, options, random);
    if (!rates) {
      return propagate(rates);
    }
    prefill = std::move(*rates);
  }
  if (options.n_generate > 0) {
    auto rates = measure_decode(engine, options, random);
    if (!rates) {
      return propagate(rates);
    }
    decode = std::move(*rates);
  }
  const double bandwidth = measure_read_bandwidth(engine.info().n_threads);
  print_result(engine, options, prefill, decode, bandwidth);
  return 0;
}

}  // namespace

Result<int> bench_command(Arguments arguments) {
  BenchOptions options;
  OptionSet set("bench MODEL [options]",
                "Prefill and decode speed of one sequence, medians of several runs.");
  options.declare(set);
  const auto outcome = set.parse(arguments);
  if (!outcome) {
    return propagate(outcome);
  }
  return *outcome == OptionSet::Outcome::kHelpShown ? 0 : bench(options);
}

}  // namespace millrace

#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/human_bytes.h"
#include "cli/bench_machine.h"
#include "cli/median.h"
#include "model/token_cost.h"

namespace millrace {
namespace {

// The medians, and how near to the machine's limits they come.
struct Findings {
  double prefill = 0;  // tokens/s
  double decode = 0;
  double prefill_share = 0;     // of the multiply-adds that the dot units could do
  double step_bytes = 0;        // of weights and KV that a decode reads
  double decode_bandwidth = 0;  // the same a second
  // Of the memory bandwidth; absent when a cache holds all that is read, so memory is no limit.
  std::optional<double> decode_share = {};
};

Findings findings_of(const Engine& engine, const BenchReport& report) {
  const BenchSize& size = report.size;
  const ModelFiles& files = engine.files();
  const PageFormat format{engine.info().kv_type, files.spec.head_dim};
  const TokenCost cost = token_cost(*files.checkpoint, files.spec, format, engine.info().isa);
  Findings found{.prefill = median(report.rates.prefill), .decode = median(report.rates.decode)};
  const double least =
      least_prefill_seconds(cost, report.limits.peaks_of(engine.info().isa), size.n_prompt);
  found.prefill_share = found.prefill * least / std::max(1, size.n_prompt);
  const double depth = size.depth + size.n_generate / 2.0;
  const double weight_bytes = decode_bytes(cost, 0);
  found.step_bytes = weight_bytes + size.n_sequences * (decode_bytes(cost, depth) - weight_bytes);
  found.decode_bandwidth = found.decode / size.n_sequences * found.step_bytes;
  if (found.step_bytes > static_cast<double>(report.cache_bytes)) {
    found.decode_share = found.decode_bandwidth / report.limits.read_all;
  }
  return found;
}

}  // namespace

std::string bench_text(const Engine& engine, const BenchReport& report) {
  const ModelInfo& info = engine.info();
  const BenchSize& size = report.size;
  const Findings found = findings_of(engine, report);
  std::string text = fmt::format("{}: {}, {}, {}, loaded in {:.2f} s\n",
                                 info.name,
                                 human_bytes(static_cast<uint64_t>(info.weight_bytes)),
                                 counted(info.n_threads, "thread"),
                                 kernels::isa_name(info.isa),
                                 info.load_seconds);
  if (!report.rates.prefill.empty()) {
    text += fmt::format(
        "prefill {:5} tokens          {:9.1f} tokens/s, {:.0f} % of the multiply peak\n",
        size.n_prompt,
        found.prefill,
        100 * found.prefill_share);
  }
  if (!report.rates.decode.empty()) {
    text +=
        fmt::format("decode  {:5} tokens after {:5} {:6.1f} tokens/s{}, {:.1f} GB/s, {}\n",
                    size.n_generate,
                    size.depth,
                    found.decode,
                    size.n_sequences > 1 ? fmt::format(" of {} sequences", size.n_sequences) : "",
                    found.decode_bandwidth / 1e9,
                    found.decode_share
                        ? fmt::format("{:.0f} % of the memory bandwidth", 100 * *found.decode_share)
                        : fmt::format("in cache: {} a step, the caches hold {}",
                                      human_bytes(static_cast<uint64_t>(found.step_bytes)),
                                      human_bytes(static_cast<uint64_t>(report.cache_bytes))));
    if (found.decode_share > 1) {
      text += "        more than 100 %: some of the weights come from the processor's caches\n";
    }
  }
  return text;
}

JsonObject bench_json(const Engine& engine, const BenchReport& report) {
  const ModelInfo& info = engine.info();
  const BenchSize& size = report.size;
  const Findings found = findings_of(engine, report);
  JsonObject object;
  object.add("model", info.name)
      .add("threads", info.n_threads)
      .add("isa", kernels::isa_name(info.isa))
      .add("weight_bytes", info.weight_bytes)
      .add("kv_type", kv_type_name(info.kv_type))
      .add("load_seconds", info.load_seconds)
      .add("prompt_tokens", size.n_prompt)
      .add("depth", size.depth)
      .add("tokens", size.n_generate)
      .add("sequences", size.n_sequences)
      .add("prefill_tokens_per_second", found.prefill)
      .add("prefill_share_of_peak", found.prefill_share)
      .add("decode_tokens_per_second", found.decode)
      .add("decode_bytes_per_second", found.decode_bandwidth)
      .add("decode_bytes_per_step", found.step_bytes)
      .add("cache_bytes", report.cache_bytes)
      .add("decode_share_of_bandwidth",
           found.decode_share.value_or(std::numeric_limits<double>::quiet_NaN()))  // null
      .add("prefill_all", report.rates.prefill)
      .add("decode_all", report.rates.decode)
      .add("machine", machine_json(report.limits));
  return object;
}

}  // namespace millrace

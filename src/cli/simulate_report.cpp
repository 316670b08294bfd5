#include "cli/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/human_bytes.h"
#include "cli/http_client.h"
#include "cli/json_object.h"

namespace millrace {
namespace {

constexpr std::array kShares = {0.5, 0.9, 0.99};

std::string row(const char* name, const Latencies& latencies) {
  std::string text = fmt::format("{:20}", name);
  const auto add = [&](double seconds) {
    text += std::isnan(seconds) ? fmt::format(" {:>11}", "-")
                                : fmt::format(" {:11.{}f}", 1e3 * seconds, seconds < 1e-3 ? 3 : 1);
  };
  for (const double share : kShares) {
    add(latencies.percentile(share));
  }
  add(latencies.largest());
  return text + '\n';
}

JsonObject quantiles(const Latencies& latencies) {
  JsonObject object;
  object.add("p50", latencies.percentile(0.5))
      .add("p90", latencies.percentile(0.9))
      .add("p99", latencies.percentile(0.99))
      .add("max", latencies.largest())
      .add("n", latencies.n());
  return object;
}

// Few keys are worth a line each.
std::string keys_text(const std::vector<KeyReport>& keys) {
  constexpr size_t kMostLines = 20;
  std::string text = fmt::format(
      "{:20} {:>11} {:>11} {:>11} {:>11}\n", "key", "requests", "finished", "good", "mean ms");
  for (const KeyReport& key : std::span(keys).first(std::min(keys.size(), kMostLines))) {
    text +=
        fmt::format("  {:18} {:11} {:11} {:11} {:>11}\n",
                    printable_line(key.key),
                    key.n_requests,
                    key.n_finished,
                    key.n_good,
                    key.n_started > 0 ? fmt::format("{:.1f}", 1e3 * key.mean_first_token()) : "-");
  }
  return keys.size() > kMostLines
             ? text + fmt::format("  and {} more (--json)\n", keys.size() - kMostLines)
             : text;
}

std::vector<JsonObject> keys_json(const std::vector<KeyReport>& keys) {
  std::vector<JsonObject> list;
  for (const KeyReport& key : keys) {
    list.push_back(JsonObject()
                       .add("key", key.key)
                       .add("requests", key.n_requests)
                       .add("finished", key.n_finished)
                       .add("good", key.n_good)
                       .add("mean_first_token_seconds", key.mean_first_token()));
  }
  return list;
}

std::string cost_text(const MeasuredCost& measured) {
  const CostModel& cost = measured.cost;
  return fmt::format(
      "cost of a step: {:.4g} ms, {:.4g} ms a token, attention to 1,000 tokens {:.4g} ms a decode, "
      "{:.4g} ms a prompt token\n  of {}{}\n",
      1e3 * cost.step,
      1e3 * cost.token,
      1e6 * cost.decode_attention,
      1e6 * cost.prompt_attention,
      measured.source,
      measured.largest_error
          ? fmt::format(", off by {:.1f} % at most", 100 * *measured.largest_error)
          : "");
}

}  // namespace

std::string simulation_text(const SimulationReport& report,
                            const MeasuredCost& measured,
                            const SimulationLimits& limits,
                            double real_seconds) {
  std::string text = fmt::format(
      "{}: {} finished, {} refused ({} too long for the pool, {} with the queue full)\n",
      counted(report.n_requests, "request"),
      report.n_finished,
      report.n_refused(),
      report.n_too_long,
      report.n_turned_away);
  if (report.n_finished == 0) {
    return text + "no request was finished, so there is nothing to tell\n";
  }
  text += fmt::format("{:.1f} virtual seconds in {:.2f} real ones: {:.0f} times as fast\n",
                      report.seconds,
                      real_seconds,
                      report.seconds / real_seconds);
  text += fmt::format("{} of prompts, {} of them found in the cache ({:.1f} %); {} generated\n",
                      counted(report.counters.n_prompt_tokens, "token"),
                      report.counters.n_cached_tokens,
                      100 * report.hit_rate(),
                      report.n_answer_tokens);
  text += fmt::format("{}, {} computed again; {}, {}\n",
                      counted(report.counters.n_preemptions, "preemption"),
                      counted(report.counters.n_recomputed_tokens, "token"),
                      counted(report.n_overtakings, "overtaking"),
                      counted(report.n_steps, "step"));
  text += fmt::format(
      "{:.2f} tokens/s, {:.4f} good requests/s: {} with the first token in {} ms and {} ms a "
      "token\n",
      static_cast<double>(report.n_answer_tokens) / report.seconds,
      static_cast<double>(report.n_good) / report.seconds,
      report.n_good,
      limits.first_token_ms,
      limits.inter_token_ms);
  text += fmt::format(
      "{:20} {:>11} {:>11} {:>11} {:>11}\n", "milliseconds", "p50", "p90", "p99", "most");
  text += row("  to first token", report.first_token);
  text += row("  between tokens", report.inter_token);
  text += row("  whole answer", report.whole);
  if (!report.keys.empty()) {
    text += keys_text(report.keys);
  }
  return text + cost_text(measured);
}

std::string simulation_json(const SimulationReport& report,
                            const MeasuredCost& measured,
                            const SimulationLimits& limits,
                            double real_seconds) {
  JsonObject cost;
  cost.add("step_ms", 1e3 * measured.cost.step)
      .add("token_ms", 1e3 * measured.cost.token)
      .add("decode_attention_ms", 1e6 * measured.cost.decode_attention)
      .add("prompt_attention_ms", 1e6 * measured.cost.prompt_attention)
      .add("source", measured.source)
      .add("largest_error",
           measured.largest_error.value_or(std::numeric_limits<double>::quiet_NaN()));
  JsonObject object;
  object.add("requests", report.n_requests)
      .add("finished", report.n_finished)
      .add("refused", report.n_refused())
      .add("too_long", report.n_too_long)
      .add("turned_away", report.n_turned_away)
      .add("virtual_seconds", report.seconds)
      .add("real_seconds", real_seconds)
      .add("times_real_time", report.seconds / real_seconds)
      .add("prompt_tokens", report.counters.n_prompt_tokens)
      .add("cached_tokens", report.counters.n_cached_tokens)
      .add("hit_rate", report.hit_rate())
      .add("completion_tokens", report.n_answer_tokens)
      .add("preemptions", report.counters.n_preemptions)
      .add("recomputed_tokens", report.counters.n_recomputed_tokens)
      .add("overtakings", report.n_overtakings)
      .add("steps", report.n_steps)
      .add("tokens_per_second", static_cast<double>(report.n_answer_tokens) / report.seconds)
      .add("ttft_slo_ms", limits.first_token_ms)
      .add("itl_slo_ms", limits.inter_token_ms)
      .add("good", report.n_good)
      .add("goodput", static_cast<double>(report.n_good) / report.seconds)
      .add("first_token_seconds", quantiles(report.first_token))
      .add("inter_token_seconds", quantiles(report.inter_token))
      .add("answer_seconds", quantiles(report.whole))
      .add("keys", keys_json(report.keys))
      .add("cost", cost);
  return object.text();
}

}  // namespace millrace

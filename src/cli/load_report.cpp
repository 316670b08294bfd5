#include "cli/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/human_bytes.h"
#include "cli/json_object.h"

namespace millrace {
namespace {

struct Totals {
  int64_t n_whole = 0;
  int64_t n_empty = 0;  // of the whole ones: the model ended at once
  int64_t n_short = 0;
  int64_t n_refused = 0;      // an HTTP status other than 200
  int64_t n_broken = 0;       // no answer, or not a whole one
  int64_t prompt_tokens = 0;  // these two of whole and short ones
  int64_t completion_tokens = 0;
  std::vector<double> first_token;  // these three of whole ones
  std::vector<double> gaps;
  std::vector<double> whole;
  // Errors that differ in numbers alone count as one, shown as the first of them.
  struct Error {
    std::string first;
    int64_t n = 0;
  };
  std::map<std::string, Error> errors;  // by their text without numbers

  void add_error(std::string text) {
    std::string key;
    for (const char c : text) {
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit || !key.ends_with('0')) key += is_digit ? '0' : c;
    }
    Error& error = errors[key];
    if (error.n++ == 0) error.first = std::move(text);
  }
};

Totals total(const LoadReport& report) {
  Totals totals;
  for (const LoadSample& sample : report.samples) {
    if (!sample.error.empty()) {
      ++(sample.status != 0 && sample.status != 200 ? totals.n_refused : totals.n_broken);
      totals.add_error(sample.status != 0 && sample.status != 200
                           ? fmt::format("HTTP {}: {}", sample.status, sample.error)
                           : sample.error);
      continue;
    }
    totals.prompt_tokens += sample.prompt_tokens;
    totals.completion_tokens += sample.completion_tokens;
    if (sample.is_short) {
      ++totals.n_short;
      continue;
    }
    ++totals.n_whole;
    totals.n_empty += sample.completion_tokens == 0 ? 1 : 0;
    if (sample.first_token > 0) {  // else nothing was shown, say an empty text
      totals.first_token.push_back(sample.first_token);
    }
    totals.whole.push_back(sample.whole);
    totals.gaps.insert(totals.gaps.end(), sample.gaps.begin(), sample.gaps.end());
  }
  return totals;
}

std::string rate_text(const LoadReport& report) {
  const double sent = report.sent_rate();
  return fmt::format(
      "{} a second asked for{}", report.rate, sent > 0 ? fmt::format(", {:.2f} sent", sent) : "");
}

std::string row(const char* name, const std::vector<double>& seconds) {
  if (seconds.empty()) {
    return fmt::format("{:20} {:>9} {:>9} {:>9}\n", name, "-", "-", "-");
  }
  std::string text = fmt::format("{:20}", name);
  for (const double share : {0.5, 0.9, 0.99}) {
    const double milliseconds = 1e3 * percentile(seconds, share);
    text += fmt::format(" {:9.{}f}", milliseconds, milliseconds < 1 ? 3 : 1);
  }
  return text + '\n';
}

JsonObject quantiles(const std::vector<double>& seconds) {
  // Of nothing there is no percentile: null, not a splendid 0.
  const auto value = [&](double share) {
    return seconds.empty() ? std::numeric_limits<double>::quiet_NaN() : percentile(seconds, share);
  };
  JsonObject object;
  object.add("p50", value(0.5))
      .add("p90", value(0.9))
      .add("p99", value(0.99))
      .add("n", seconds.size());
  return object;
}

}  // namespace

int64_t LoadReport::n_not_whole() const {
  return std::count_if(samples.begin(), samples.end(), [](const LoadSample& sample) {
    return !sample.error.empty() || sample.is_short;
  });
}

double LoadReport::sent_rate() const {
  if (rate == 0 || samples.size() < 2) {
    return 0;
  }
  const auto [first, last] = std::ranges::minmax_element(samples, {}, &LoadSample::started);
  const double seconds = last->started - first->started;
  return seconds > 0 ? static_cast<double>(samples.size() - 1) / seconds : 0;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) {
    return 0;
  }
  const auto rank =
      static_cast<size_t>(std::max(0.0, std::ceil(share * static_cast<double>(values.size())) - 1));
  const auto at = values.begin() + static_cast<int64_t>(std::min(rank, values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::string report_text(const LoadReport& report) {
  const Totals totals = total(report);
  const auto n_requests = static_cast<int64_t>(report.samples.size());
  std::string text;
  if (report.is_cut_short) {
    text = fmt::format("cut short: {} of {} had ended, the others are not counted\n",
                       n_requests,
                       counted(report.n_asked, "request"));
  }
  text += fmt::format("{}, {}: {} whole{}, {} short, {} refused, {} broken\n",
                      counted(n_requests, "request"),
                      report.rate > 0
                          ? rate_text(report)
                          : fmt::format("{} at once",
                                        std::min(std::max<int64_t>(n_requests, report.n_asked),
                                                 int64_t{report.concurrency})),
                      totals.n_whole,
                      totals.n_empty > 0 ? fmt::format(" ({} empty)", totals.n_empty) : "",
                      totals.n_short,
                      totals.n_refused,
                      totals.n_broken);
  for (const auto& [key, error] : totals.errors) {
    text += fmt::format("  {} x {}\n", error.n, error.first);
  }
  if (totals.whole.empty()) {
    return text + "no answer was whole, so there is nothing to measure\n";
  }
  text +=
      fmt::format("{} of prompts, {} generated in {:.2f} s: {:.1f} tokens/s, {:.2f} requests/s\n",
                  counted(totals.prompt_tokens, "token"),
                  totals.completion_tokens,
                  report.seconds,
                  static_cast<double>(totals.completion_tokens) / report.seconds,
                  static_cast<double>(totals.whole.size()) / report.seconds);
  text += fmt::format("{:20} {:>9} {:>9} {:>9}\n", "milliseconds", "p50", "p90", "p99");
  text += row("  to first token", totals.first_token);
  text += row("  between tokens", totals.gaps);
  text += row("  whole answer", totals.whole);
  return text;
}

std::string report_json(const LoadReport& report) {
  const Totals totals = total(report);
  JsonObject errors;
  for (const auto& [key, error] : totals.errors) {
    errors.add(error.first, error.n);
  }
  JsonObject object;
  const double sent = report.sent_rate();
  object.add("requests", report.samples.size())
      .add("requests_asked", report.n_asked)
      .add("cut_short", report.is_cut_short)
      .add("concurrency", report.concurrency)
      .add("rate", report.rate)
      .add("sent_rate", sent > 0 ? sent : std::numeric_limits<double>::quiet_NaN())
      .add("whole", totals.n_whole)
      .add("empty", totals.n_empty)
      .add("short", totals.n_short)
      .add("refused", totals.n_refused)
      .add("broken", totals.n_broken)
      .add("errors", errors)
      .add("seconds", report.seconds)
      .add("prompt_tokens", totals.prompt_tokens)
      .add("completion_tokens", totals.completion_tokens)
      .add("tokens_per_second",
           totals.whole.empty() ? std::numeric_limits<double>::quiet_NaN()
                                : static_cast<double>(totals.completion_tokens) / report.seconds)
      .add("first_token_seconds", quantiles(totals.first_token))
      .add("inter_token_seconds", quantiles(totals.gaps))
      .add("answer_seconds", quantiles(totals.whole));
  return object.text();
}

}  // namespace millrace

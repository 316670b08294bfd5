// millrace load: streaming chat requests to any OpenAI-compatible server. Tokens are counted by the
// server's usage, not by chunks; what went wrong is listed apart from what was measured.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/regular_file.h"
#include "cli/command.h"
#include "cli/descriptor_limit.h"
#include "cli/http_client.h"
#include "cli/json_object.h"
#include "cli/load_answer.h"
#include "cli/load_options.h"
#include "cli/load_progress.h"
#include "cli/load_report.h"
#include "cli/option_set.h"
#include "cli/prompt_file.h"
#include "cli/stop_event.h"
#include "cli/stop_signals.h"
#include "text/value.h"

namespace millrace {
namespace {

constexpr auto kReadyLimit = std::chrono::seconds(60);
constexpr auto kReadyPause = std::chrono::milliseconds(100);
constexpr int kDefaultConcurrency = 8;
constexpr size_t kMaxKeyFileBytes = size_t{1} << 20;

constexpr std::array kPrompts = {
    "Tell me a story about a fox who wants to learn how to swim.",
    "Tell me a story about a small boat in a storm. Who helps the boat, and how does it end?",
    "What is 17 plus 25?",
    "Tell me a story about two friends who find an old map.",
    "Write a short story about a baker, a lost dog and a rainy day. The story must have a happy "
    "end.",
    "Tell me a story.",
    "Tell me a story about a girl who plants a tree and waits for the first apple.",
    "Say hello to the new neighbour and tell her about our village.",
};

struct Target {
  Url url;
  std::string api_key;
  std::string model;
  std::chrono::seconds timeout;
};

struct Response {
  int status = 0;
  std::string body;
};

Result<Response> get(const Target& target, const std::string& path) {
  ClientRequest request;
  request.path = path;
  request.api_key = target.api_key;
  request.timeout = target.timeout;
  Response response;
  const auto status =
      exchange(target.url, request, [&](std::string_view bytes) { response.body += bytes; });
  if (!status) {
    return propagate(status);
  }
  response.status = *status;
  return response;
}

// Waits while the server says that it is loading; servers without the path are taken as ready.
Result<void> wait_until_ready(const Target& target) {
  const TimePoint deadline = Clock::now() + kReadyLimit;
  while (true) {
    const auto response = get(target, "/health/ready");
    if (!response) {
      return propagate(response);
    }
    if (response->status != 503) {
      return {};
    }
    if (Clock::now() > deadline) {
      return fail(
          ErrorCode::kUnavailable, "the server is not ready after {} s", kReadyLimit.count());
    }
    std::this_thread::sleep_for(kReadyPause);
  }
}

Result<std::string> first_model(const Target& target) {
  const auto response = get(target, "/v1/models");
  if (!response) {
    return propagate(response);
  }
  const auto body = parse_json(response->body);
  const Value* data = body ? body->find("data") : nullptr;
  if (response->status == 401 || response->status == 403) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: the server wants {} key (--api-key-file)",
                response->status,
                target.api_key.empty() ? "a" : "another");
  }
  if (response->status == 200 && data != nullptr && data->is_list() && !data->items().empty()) {
    const std::string_view id = data->items()[0].string_or("id", "");
    if (!id.empty()) {
      return std::string(id);
    }
  }
  return fail(ErrorCode::kUnsupported,
              "{}/v1/models answered {} and no model: is this the address of an OpenAI-compatible "
              "server? (--model names a model without asking)",
              target.url.path,
              response->status);
}

// The first line; a file that holds none would make every request a 401 that says nothing of it.
Result<std::string> read_api_key(const std::string& path) {
  const auto content = read_regular_file(path, kMaxKeyFileBytes);
  if (!content) {
    return fail(content.error().code, "--api-key-file {}", content.error().message);
  }
  std::string key = content->substr(0, content->find('\n'));
  while (!key.empty() && (key.back() == '\r' || key.back() == ' ' || key.back() == '\t')) {
    key.pop_back();
  }
  const bool is_printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (key.empty() || !is_printable) {
    return fail(ErrorCode::kInvalidArgument,
                "--api-key-file {}: its first line is {}",
                path,
                key.empty() ? "empty" : "not a key: expected printable ASCII without spaces");
  }
  return key;
}

Result<std::vector<std::string>> read_prompts(const std::string& path) {
  if (path.empty()) {
    return std::vector<std::string>(kPrompts.begin(), kPrompts.end());
  }
  return read_prompt_file("--prompts", path);
}

std::string body_of(const LoadCommandOptions& options,
                    const Target& target,
                    const std::string& prompt,
                    int index) {
  JsonObject message;
  message.add("role", "user").add("content", prompt);
  JsonObject stream_options;
  stream_options.add("include_usage", true);
  JsonObject body;
  body.add("model", target.model)
      .add("messages", std::vector<JsonObject>{message})
      .add("temperature", double{options.temperature})
      .add("seed", options.seed + index)
      .add("stream", true)
      .add("stream_options", stream_options);
  if (options.max_tokens > 0) {
    body.add("max_tokens", options.max_tokens);
  }
  if (options.ignore_eos) {
    body.add("ignore_eos", true);
  }
  return body.text();
}

// With a rate, users who do not wait for each other; else as many as are asked for.
int concurrency_of(const LoadCommandOptions& options) {
  const int otherwise = options.rate > 0 ? kMaxLoadConcurrency : kDefaultConcurrency;
  return std::min(options.concurrency > 0 ? options.concurrency : otherwise, options.n_requests);
}

// When request i starts, in seconds from the beginning; all 0 without a rate.
std::vector<double> plan_starts(const LoadCommandOptions& options) {
  std::vector<double> starts(static_cast<size_t>(options.n_requests), 0);
  if (options.rate > 0) {
    std::mt19937_64 random(static_cast<uint64_t>(options.seed));
    std::exponential_distribution<double> gap(options.rate);
    double at = 0;
    for (double& start : starts) {
      start = at;
      at += gap(random);
    }
  }
  return starts;
}

// Sends the requests from as many threads as may be under way.
class LoadRun {
 public:
  LoadRun(const LoadCommandOptions& options,
          const Target& target,
          const std::vector<std::string>& prompts,
          const StopEvent& stop)
      : options_(options),
        target_(target),
        prompts_(prompts),
        stop_(stop),
        starts_(plan_starts(options)),
        progress_(options.n_requests, options.is_json, options.shows_one) {
    report_.samples.resize(static_cast<size_t>(options.n_requests));
    report_.n_asked = options.n_requests;
    report_.concurrency = concurrency_of(options);
    report_.rate = options.rate;
  }

  // What had not ended when it was stopped is left out.
  LoadReport run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < report_.concurrency; ++i) {
      threads.emplace_back([this] { work(); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const LoadSample& sample : report_.samples) {
      report_.seconds = std::max(report_.seconds, sample.ended);
    }
    std::erase_if(report_.samples, [](const LoadSample& sample) { return sample.ended == 0; });
    report_.is_cut_short = std::ssize(report_.samples) < report_.n_asked;
    return std::move(report_);
  }

 private:
  void work() {
    for (int i = next_++; i < options_.n_requests && !stop_.is_raised(); i = next_++) {
      TimePoint start = Clock::now();
      if (options_.rate > 0) {  // late starts count: users do not wait for each other
        start = begin_ + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(starts_[static_cast<size_t>(i)]));
        if (stop_.wait_until(start)) {
          return;
        }
      }
      send(i, start);
    }
  }

  void send(int i, TimePoint start) {
    const auto index = static_cast<size_t>(i);
    LoadSample& sample = report_.samples[index];
    ClientRequest request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.api_key = target_.api_key;
    request.timeout = target_.timeout;
    request.body = body_of(options_, target_, prompts_[index % prompts_.size()], i);
    request.stop_descriptor = stop_.descriptor();
    std::FILE* const text_goes_to = options_.is_json ? stderr : stdout;
    const bool is_shown = options_.shows_one && i == 0;
    LoadAnswerReader reader(sample, start, is_shown ? text_goes_to : nullptr);
    sample.started = seconds_since(begin_);
    progress_.begin_one();
    const auto status =
        exchange(target_.url, request, [&](std::string_view bytes) { reader.feed(bytes); });
    if (status || status.error().code != ErrorCode::kCancelled) {
      reader.finish(status, options_.ignore_eos ? options_.max_tokens : 0);
      sample.ended = seconds_since(begin_);
    }
    if (is_shown) {
      std::fputs("\n\n", text_goes_to);
      std::fflush(text_goes_to);
      progress_.go();
    }
    if (sample.ended > 0) {
      progress_.end_one(sample);
    }
  }

  const LoadCommandOptions& options_;
  const Target& target_;
  const std::vector<std::string>& prompts_;
  const StopEvent& stop_;
  const std::vector<double> starts_;
  const TimePoint begin_ = Clock::now();
  LoadReport report_;
  std::atomic<int> next_{0};
  LoadProgress progress_;
};

Result<int> load(const LoadCommandOptions& options) {
  if (options.max_tokens == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "--max-tokens: expected 1 or more, or -1 for the server's own limit, got 0");
  }
  auto url = parse_url(options.url);
  if (!url) {
    return propagate(url);
  }
  if (url->path.ends_with("/v1")) {  // as other clients want it; the paths asked for begin with it
    url->path.resize(url->path.size() - 3);
  }
  Target target{*url, "", options.model, std::chrono::seconds(options.timeout_seconds)};
  if (!options.api_key_file.empty()) {
    auto key = read_api_key(options.api_key_file);
    if (!key) {
      return propagate(key);
    }
    target.api_key = std::move(*key);
  }
  // A signal ends what runs, and then its results are shown; before, and the second time, all.
  StopEvent stop;
  std::atomic<bool> is_running{false};
  std::atomic<int> last_signal{0};
  const StopSignals signals([&](int count, int signal) {
    last_signal.store(signal);
    if (!is_running.load() || count > 1) {
      std::_Exit(128 + signal);
    }
    stop.raise();
  });
  raise_descriptor_limit();
  const auto prompts = read_prompts(options.prompt_file);
  if (!prompts) {
    return propagate(prompts);
  }
  if (auto ready = wait_until_ready(target); !ready) {
    return propagate(ready);
  }
  if (target.model.empty()) {
    auto model = first_model(target);
    if (!model) {
      return propagate(model);
    }
    target.model = std::move(*model);
  }
  if (options.shows_one) {
    std::FILE* const shown = options.is_json ? stderr : stdout;
    fmt::print(shown, "> {}\n", prompts->front());
    std::fflush(shown);
  }
  is_running.store(true);
  const LoadReport report = LoadRun(options, target, *prompts, stop).run();
  fmt::print("{}", options.is_json ? report_json(report) + "\n" : report_text(report));
  if (report.is_cut_short) {
    return 128 + last_signal.load();
  }
  if (!report.is_whole()) {
    return fail(ErrorCode::kInternal,
                "{} of {} answers were not whole",
                report.n_not_whole(),
                report.samples.size());
  }
  return 0;
}

}  // namespace

Result<int> load_command(Arguments arguments) {
  LoadCommandOptions options;
  OptionSet set(
      "load URL [options]",
      "Sends streaming chat requests to any OpenAI-compatible server and measures the "
      "answers. Exit status 0 only if all were whole. Ctrl-C ends it early and shows what "
      "came until then (status 130).");
  options.declare(set);
  return set.run(arguments, [&] { return load(options); });
}

}  // namespace millrace

// millrace load: streaming chat requests to any OpenAI-compatible server. Tokens are counted by the
// server's usage, not by chunks; what went wrong is listed apart from what was measured.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/regular_file.h"
#include "cli/command.h"
#include "cli/descriptor_limit.h"
#include "cli/http_client.h"
#include "cli/json_object.h"
#include "cli/load_report.h"
#include "cli/option_set.h"
#include "cli/prompt_file.h"
#include "sample/sampling_params.h"
#include "text/value.h"

namespace millrace {
namespace {

constexpr auto kReadyLimit = std::chrono::seconds(60);
constexpr auto kReadyPause = std::chrono::milliseconds(100);
constexpr int kDefaultConcurrency = 8;
constexpr int kMaxConcurrency = 4096;
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

struct LoadOptions {
  std::string url;
  int n_requests = 32;
  int concurrency = 0;
  double rate = 0;
  std::string prompt_file;
  std::string model;
  std::string api_key_file;
  int max_tokens = 128;
  float temperature = 1;
  int64_t seed = 1;
  int timeout_seconds = 300;
  bool ignore_eos = false;
  bool shows_one = false;
  bool is_json = false;

  void declare(OptionSet& options) {
    options.add("URL", url, "The server, as http://127.0.0.1:8080 (a /v1 at the end is taken off)");
    options.add("-r,--requests", n_requests, 1, 10'000'000, "How many requests");
    options.add("-c,--concurrency",
                concurrency,
                0,
                kMaxConcurrency,
                "How many at once at most; 0: 8, or with --rate as many as there are");
    options.add("--rate",
                rate,
                0,
                1e6,
                "Requests that start in a second, at random (Poisson) times; 0: the next starts "
                "when one ends");
    options.add(
        "--prompts",
        prompt_file,
        "A file with one prompt a line, - for standard input; default: eight built-in ones");
    options.add(
        "--model", model, "The model's name in the requests; default: the first of /v1/models");
    options.add(
        "--api-key-file", api_key_file, "A file whose first line is the key; default: none");
    options.add("-n,--max-tokens",
                max_tokens,
                -1,
                1 << 20,
                "Tokens of an answer at most; -1: the server's own limit");
    options.add("--temperature",
                temperature,
                kTemperatureRange.low,
                kTemperatureRange.high,
                "How freely to draw; 0 takes the likeliest token each time");
    options.add("-s,--seed", seed, 0, INT32_MAX, "Request i is sent with seed + i");
    options.add("--timeout", timeout_seconds, 1, 86400, "Seconds without a byte before giving up");
    options.add("--ignore-eos",
                ignore_eos,
                "Ask for exactly --max-tokens (Millrace, vLLM); fewer count as short");
    options.add("--show-one", shows_one, "Print the first answer as it streams");
    options.add("--json", is_json, "Print one JSON object");
  }
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

std::string body_of(const LoadOptions& options,
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

// Reads one answer's stream into a sample.
class AnswerReader {
 public:
  // shown: where the text goes as it comes; null: nowhere.
  AnswerReader(LoadSample& sample, TimePoint start, std::FILE* shown)
      : sample_(sample), start_(start), shown_(shown) {}

  void feed(std::string_view bytes) {
    if (raw_.size() < kKeptBytes) {
      raw_ += bytes.substr(0, kKeptBytes - raw_.size());
    }
    events_.feed(bytes, [this](std::string_view data) { take(data); });
  }

  void finish(const Result<int>& status, const LoadOptions& options) {
    sample_.whole = seconds_since(start_);
    if (!status) {
      set_error(status.error().message);
      return;
    }
    sample_.status = is_refused_ ? 429 : *status;
    if (*status != 200) {
      set_error(raw_.empty() ? "an empty body" : error_text());
    } else if (sample_.error.empty()) {
      if (!is_done_ || sample_.finish_reason.empty()) {
        sample_.error = "the stream ended without finish_reason and [DONE]";
      } else if (!has_usage_) {
        sample_.error = "the stream had no usage";
      } else if (sample_.completion_tokens == 0 && sample_.first_token > 0) {
        sample_.error = "text came, of which usage counts no token";
      }
    }
    sample_.is_short = sample_.error.empty() && options.ignore_eos &&
                       sample_.completion_tokens < options.max_tokens;
  }

 private:
  static constexpr size_t kKeptBytes = 2000;  // for messages

  void take(std::string_view data) {
    if (data == "[DONE]") {
      is_done_ = true;
      return;
    }
    const auto chunk = parse_json(data);
    if (!chunk) {
      set_error("a chunk is not JSON: " + chunk.error().message);
      return;
    }
    if (const Value* error = chunk->find("error"); error != nullptr && !error->is_none()) {
      set_error(message_of(*error, "an error without a message"));
      is_refused_ = error->is_dict() && error->string_or("code", "") == "rate_limit_exceeded";
      return;
    }
    if (const Value* usage = chunk->find("usage"); usage != nullptr && usage->is_dict()) {
      sample_.prompt_tokens = count(*usage, "prompt_tokens");
      sample_.completion_tokens = count(*usage, "completion_tokens");
      has_usage_ = true;
    }
    const Value* choices = chunk->find("choices");
    if (choices == nullptr || !choices->is_list() || choices->items().empty()) {
      return;
    }
    const Value& choice = choices->items()[0];
    if (const std::string_view reason = choice.string_or("finish_reason", ""); !reason.empty()) {
      sample_.finish_reason = reason;
    }
    if (const Value* delta = choice.find("delta")) {
      take_text(delta->string_or("reasoning_content", ""));  // what a model thinks is generated too
      take_text(delta->string_or("content", ""));
    }
  }

  // Never empty: an empty error would be none.
  void set_error(std::string_view message) {
    sample_.error = message.empty() ? "an error without a message" : printable_line(message);
  }

  void take_text(std::string_view text) {
    if (text.empty()) {
      return;
    }
    const double now = seconds_since(start_);
    if (sample_.first_token == 0) {
      sample_.first_token = now;
    } else {
      sample_.gaps.push_back(now - last_);
    }
    last_ = now;
    if (shown_ != nullptr) {
      std::fwrite(text.data(), 1, text.size(), shown_);
      std::fflush(shown_);
    }
  }

  static int64_t count(const Value& object, std::string_view name) {
    const Value* value = object.find(name);
    return value != nullptr && value->is_int() ? std::max<int64_t>(value->as_int(), 0) : 0;
  }

  // error: an object with a message, or the message itself.
  static std::string message_of(const Value& error, std::string_view otherwise) {
    return error.is_string() ? error.as_string()
                             : std::string(error.string_or("message", otherwise));
  }

  std::string error_text() const {
    const auto body = parse_json(raw_);
    const Value* error = body ? body->find("error") : nullptr;
    return error != nullptr ? message_of(*error, raw_) : raw_;
  }

  LoadSample& sample_;
  const TimePoint start_;
  std::FILE* const shown_;
  SseReader events_;
  std::string raw_;
  double last_ = 0;
  bool is_done_ = false;
  bool has_usage_ = false;
  bool is_refused_ = false;  // by an error in a stream that had begun
};

// With a rate, users who do not wait for each other; else as many as are asked for.
int concurrency_of(const LoadOptions& options) {
  const int otherwise = options.rate > 0 ? kMaxConcurrency : kDefaultConcurrency;
  return std::min(options.concurrency > 0 ? options.concurrency : otherwise, options.n_requests);
}

// When request i starts, in seconds from the beginning; all 0 without a rate.
std::vector<double> plan_starts(const LoadOptions& options) {
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

LoadReport run_load(const LoadOptions& options,
                    const Target& target,
                    const std::vector<std::string>& prompts) {
  LoadReport report;
  report.samples.resize(static_cast<size_t>(options.n_requests));
  report.concurrency = concurrency_of(options);
  report.rate = options.rate;
  const std::vector<double> starts = plan_starts(options);
  std::atomic<int> next{0};
  const TimePoint begin = Clock::now();
  const auto work = [&] {
    for (int i = next++; i < options.n_requests; i = next++) {
      const auto index = static_cast<size_t>(i);
      TimePoint start = Clock::now();
      if (options.rate > 0) {  // late starts count: users do not wait for each other
        start = begin + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(starts[index]));
        std::this_thread::sleep_until(start);
      }
      ClientRequest request;
      request.method = "POST";
      request.path = "/v1/chat/completions";
      request.api_key = target.api_key;
      request.timeout = target.timeout;
      request.body = body_of(options, target, prompts[index % prompts.size()], i);
      std::FILE* const text_goes_to = options.is_json ? stderr : stdout;
      AnswerReader reader(
          report.samples[index], start, options.shows_one && i == 0 ? text_goes_to : nullptr);
      const auto status =
          exchange(target.url, request, [&](std::string_view bytes) { reader.feed(bytes); });
      reader.finish(status, options);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < report.concurrency; ++i) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  report.seconds = seconds_since(begin);
  return report;
}

Result<int> load(const LoadOptions& options) {
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
  std::FILE* const shown = options.is_json ? stderr : stdout;
  if (options.shows_one) {
    fmt::print(shown, "> {}\n", prompts->front());
    std::fflush(shown);
  }
  const LoadReport report = run_load(options, target, *prompts);
  if (options.shows_one) {
    fmt::print(shown, "\n\n");
  }
  fmt::print("{}", options.is_json ? report_json(report) + "\n" : report_text(report));
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
  LoadOptions options;
  OptionSet set("load URL [options]",
                "Sends streaming chat requests to any OpenAI-compatible server and measures the "
                "answers. Exit status 0 only if all were whole.");
  options.declare(set);
  return set.run(arguments, [&] { return load(options); });
}

}  // namespace millrace

// millrace serve: listens at once, loads, serves, drains.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>

#include "base/human_bytes.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/descriptor_limit.h"
#include "cli/draft_options.h"
#include "cli/http_client.h"
#include "cli/model_options.h"
#include "cli/option_set.h"
#include "cli/prompt_file.h"
#include "cli/response_cache_options.h"
#include "cli/scheduling_options.h"
#include "cli/stop_signals.h"
#include "cli/warm.h"
#include "server/host_check.h"
#include "server/http_server.h"
#include "server/service.h"

namespace millrace {
namespace {

struct ServeOptions {
  ModelOptions model;
  DraftOptions draft;
  ResponseCacheFlags response_cache;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string port_file;
  std::vector<std::string> aliases;
  std::string api_key_file;
  std::vector<std::string> allowed_origins;
  SchedulingOptions scheduling;
  int max_queue_ms = 0;
  int max_body_mebibytes = 32;
  int max_connections = 1024;
  int shutdown_seconds = 30;
  std::optional<std::string> kv_disk;
  std::optional<int64_t> kv_disk_mebibytes;
  std::optional<std::string> warm_file;
  bool always_usage = false;
  bool is_verbose = false;

  void declare(OptionSet& options) {
    model.declare(options);
    draft.declare(options);
    options.add(
        "--host", host, "The IP address to listen on, or localhost; 0.0.0.0 is every interface");
    options.add("--port", port, 0, 65535, "The port; 0: any free one");
    options.add(
        "--port-file", port_file, "A file that gets the port once it is open; default: none");
    options.add(
        "--alias",
        aliases,
        "A name for the model, besides the file's, or several with commas between them; the first "
        "is the one shown (repeatable)");
    options.add(
        "--api-key-file",
        api_key_file,
        "A file with keys, one a line; only /health/... is open without one. Default: no keys");
    options.add(
        "--allow-origin",
        allowed_origins,
        "An origin whose pages may use the server, as https://app.example, * for all (repeatable); "
        "default: none");
    scheduling.declare(options, "the keys of --api-key-file");
    options.add("--max-queue-ms",
                max_queue_ms,
                0,
                kMaxQueueMilliseconds,
                "Milliseconds that a request may wait for its turn, then it gets 429; 0: any time");
    options.add(
        "--max-body", max_body_mebibytes, 1, 1024, "MiB of a request's body; more gets 413");
    options.add(
        "--max-connections", max_connections, 1, 1 << 20, "Connections open at once; more get 503");
    options.add("--shutdown-timeout",
                shutdown_seconds,
                0,
                86400,
                "Seconds for running answers after SIGTERM; a second signal ends at once");
    options.add("--kv-disk",
                kv_disk,
                "A folder that keeps computed prompts when memory runs short and over restarts; "
                "default: none");
    options.add(
        "--kv-disk-size",
        kv_disk_mebibytes,
        1,
        kMaxKvDisk >> 20,
        fmt::format("MiB that --kv-disk may take; default: {}", kDefaultKvDisk >> 20).c_str());
    options.add("--warm",
                warm_file,
                "A file of prompts to have ready before the first request, one a line: text, or "
                "the body of a chat request as JSON; - is standard input. Default: none");
    response_cache.declare(options);
    options.add(
        "--always-usage", always_usage, "End every stream with a usage chunk, asked for or not");
    options.add("--verbose", is_verbose, "Log every request (never its text)");
  }
};

// Counts stop signals for the main thread.
class StopRequest {
 public:
  void raise(int count) {
    const std::lock_guard lock(mutex_);
    n_signals_ = count;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return n_signals_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_signals_ = 0;
};

// The file is replaced; a device or a pipe must not be.
Result<void> check_port_file(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return fail(ErrorCode::kIo, "--port-file {}: is not a regular file", path);
  }
  return {};
}

Result<void> write_port_file(const std::string& path, uint16_t port) {
  if (path.empty()) {
    return {};
  }
  const std::string temporary = path + ".new";  // renamed, so that nobody reads half a number
  {
    std::ofstream file(temporary);
    file << port << '\n';
    if (!file.flush()) {
      return fail(ErrorCode::kIo, "--port-file {}: cannot be written", path);
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail(ErrorCode::kIo, "--port-file {}: cannot be written", path);
  }
  return {};
}

// All names of --alias, also those with commas between them.
std::vector<std::string> alias_names(const ServeOptions& options) {
  std::vector<std::string> names;
  for (const std::string& alias : options.aliases) {
    for (size_t at = 0; at != std::string::npos;) {
      const size_t comma = alias.find(',', at);
      names.push_back(alias.substr(at, comma - at));
      at = comma == std::string::npos ? comma : comma + 1;
    }
  }
  return names;
}

Result<void> check_names(const ServeOptions& options) {
  for (const std::string& alias : alias_names(options)) {
    const bool is_printable =
        std::ranges::none_of(alias, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
    if (alias.empty() || !is_printable) {
      return fail(ErrorCode::kInvalidArgument,
                  "--alias: expected a name without spaces, got \"{}\"",
                  printable_line(alias));
    }
  }
  for (const std::string& origin : options.allowed_origins) {
    if (origin != "*" && !is_origin(origin)) {
      return fail(ErrorCode::kInvalidArgument,
                  "--allow-origin: expected an origin as https://app.example or "
                  "http://localhost:3000, or *, got \"{}\"",
                  printable_line(origin));
    }
  }
  return {};
}

Result<void> check_files(const ServeOptions& options) {
  if (options.kv_disk_mebibytes && !options.kv_disk) {
    return fail(ErrorCode::kInvalidArgument, "--kv-disk-size needs a folder: --kv-disk DIR");
  }
  if (options.kv_disk == "") {
    return fail(ErrorCode::kInvalidArgument, "--kv-disk: expected a folder, got an empty name");
  }
  if (options.warm_file == "") {
    return fail(ErrorCode::kInvalidArgument, "--warm: expected a file, got an empty name");
  }
  return check_port_file(options.port_file);
}

Result<ServiceOptions> service_options(const ServeOptions& options) {
  ServiceOptions result;
  std::vector<std::string> names = alias_names(options);
  names.push_back(model_path_name(options.model.model));  // "demo" stays as it is
  for (std::string& name : names) {
    if (std::ranges::find(result.model_names, name) == result.model_names.end()) {
      result.model_names.push_back(std::move(name));
    }
  }
  result.allowed_origins = options.allowed_origins;
  result.always_usage = options.always_usage;
  if (!options.api_key_file.empty()) {
    auto keys = ApiKeys::read_file(options.api_key_file);
    if (!keys) {
      return propagate(keys);
    }
    result.keys = std::move(*keys);
    result.tells_clients_apart = options.scheduling.is_fair;
  } else if (is_loopback_address(options.host)) {
    result.checks_host = true;
  }
  return result;
}

Result<EngineOptions> engine_request(const ServeOptions& options) {
  EngineOptions result;
  for (const Result<void>& applied :
       {options.scheduling.apply(result), options.draft.apply(result)}) {
    if (!applied) {
      return propagate(applied);
    }
  }
  if (result.is_fair && options.api_key_file.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--fair shares between API keys: it needs --api-key-file");
  }
  result.kv_disk = options.kv_disk.value_or("");
  result.kv_disk_bytes =
      options.kv_disk_mebibytes ? *options.kv_disk_mebibytes << 20 : kDefaultKvDisk;
  result.max_queue_ms = options.max_queue_ms;
  result.warms_up = true;
  return result;
}

HttpServerOptions http_options(const ServeOptions& options) {
  HttpServerOptions http;
  http.host = options.host;
  http.port = static_cast<uint16_t>(options.port);
  http.max_body_bytes = static_cast<size_t>(options.max_body_mebibytes) << 20;
  http.max_connections = options.max_connections;
  return http;
}

void allow_connections(int max_connections) {
  constexpr int64_t kOwnDescriptors = 64;  // logs, sockets that listen, wake-ups of threads
  const int64_t n_allowed = raise_descriptor_limit();
  if (n_allowed < max_connections + kOwnDescriptors) {
    log_warning(
        "[serve] --max-connections {} needs more files open than the {} that this process may have "
        "(ulimit -Hn, LimitNOFILE): connections beyond wait",
        max_connections,
        n_allowed);
  }
}

void log_model(const Engine& engine, const ServeOptions& options) {
  const ModelInfo& info = engine.info();
  const int64_t whole_window = engine.files().spec.context_length;
  if (info.max_model_len < whole_window && !options.model.max_model_len) {
    log_warning(
        "[serve] the window is {} tokens instead of the model's {}: the KV memory holds no more "
        "(raise --kv-memory, or take --kv-type int8; --max-model-len {} asks for this window)",
        info.max_model_len,
        whole_window,
        info.max_model_len);
  }
  log_info("[serve] {}: {}, window {} tokens, {}, {}, {:.2f} s",
           info.name,
           info.architecture,
           info.max_model_len,
           counted(info.n_threads, "thread"),
           kernels::isa_name(info.isa),
           info.load_seconds);
  log_info("[serve] {}", info.memory_plan);
  if (options.kv_disk) {
    log_info("[serve] computed prompts are kept in {}, up to {}",
             *options.kv_disk,
             human_bytes(static_cast<uint64_t>(
                 options.kv_disk_mebibytes ? *options.kv_disk_mebibytes << 20 : kDefaultKvDisk)));
  }
  if (options.draft.model) {
    log_info("[serve] {} guesses up to {} ahead",
             *options.draft.model,
             counted(options.draft.max_drafts, "token"));
  }
}

// Running answers go on for a while; new ones get 503.
void drain(HttpServer& server, Service& service, Engine& engine, int seconds) {
  log_info("[serve] stopping: {} running (up to {} s; a second signal ends at once)",
           counted(server.n_requests_running(), "request"),
           seconds);
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  service.begin_drain();
  server.begin_drain();
  const bool is_whole = engine.drain(deadline);
  server.wait_idle(std::chrono::milliseconds(2'000));
  log_info("[serve] stopped{}", is_whole ? "" : ", some answers were cut off");
}

Result<int> serve(const ServeOptions& options) {
  StopRequest stop;
  std::atomic<bool> is_serving{false};
  const StopSignals signals([&](int count, int) {
    if (!is_serving.load() || count > 1) {
      std::_Exit(count > 1 ? 1 : 0);
    }
    stop.raise(count);
  });
  if (options.is_verbose) {
    set_log_level(LogLevel::kDebug);
  }
  for (const Result<void>& checked : {check_files(options), check_names(options)}) {
    if (!checked) {
      return propagate(checked);
    }
  }
  auto asked = engine_request(options);
  if (!asked) {
    return propagate(asked);
  }
  const auto prompts = options.warm_file ? read_prompt_lines("--warm", *options.warm_file)
                                         : Result<std::vector<PromptLine>>();
  if (!prompts) {
    return propagate(prompts);
  }
  allow_connections(options.max_connections);
  auto files = open_model(options.model.model);
  if (!files) {
    return propagate(files);
  }
  auto api_options = service_options(options);
  if (!api_options) {
    return propagate(api_options);
  }
  auto cache_options = options.response_cache.read();
  if (!cache_options) {
    return propagate(cache_options);
  }
  auto draft = open_draft(options.draft.model);
  if (!draft) {
    return propagate(draft);
  }
  // What the files and the options decide is said before anybody can connect.
  if (auto plan = plan_engine(*files, options.model, *asked, *draft); !plan) {
    return propagate(plan);
  }
  Metrics metrics;
  std::unique_ptr<Engine> engine;  // both outlive the server
  std::unique_ptr<ResponseCache> response_cache;
  Service service(std::move(*api_options), metrics);
  auto server = HttpServer::start(http_options(options), service.handler());
  if (!server) {
    return propagate(server);
  }
  log_info("[serve] listening on {}", (*server)->url());
  if (options.api_key_file.empty() && !is_loopback_address(options.host)) {
    log_warning("[serve] {} is open to other machines without a key (--api-key-file)",
                options.host);
  }
  if (auto written = write_port_file(options.port_file, (*server)->port()); !written) {
    return propagate(written);
  }
  auto started =
      start_engine(std::move(*files), options.model, *std::move(asked), metrics, *std::move(draft));
  if (!started) {
    return propagate(started);
  }
  engine = std::move(*started);
  log_model(*engine, options);
  if (!prompts->empty()) {
    if (auto warmed = warm_up(service, *engine, *prompts, *options.warm_file); !warmed) {
      return propagate(warmed);
    }
  }
  is_serving.store(true);
  response_cache = start_response_cache(std::move(*cache_options), *engine, metrics);
  service.set_engine(*engine, response_cache.get());
  log_info("[serve] ready: curl {}/v1/models", (*server)->url());
  stop.wait();
  drain(**server, service, *engine, options.shutdown_seconds);
  return 0;
}

}  // namespace

Result<int> serve_command(Arguments arguments) {
  ServeOptions options;
  OptionSet set("serve MODEL [options]",
                "Serves a model with OpenAI's API over HTTP until SIGINT (Ctrl-C) or SIGTERM.");
  options.declare(set);
  return set.run(arguments, [&] {
    if (options.host == "localhost") {
      options.host = "127.0.0.1";
    }
    return serve(options);
  });
}

}  // namespace millrace

#pragma once
// The API on top of the transport: keys, origins, readiness, routes, metrics, and the engine once
// it is there. Lives as long as the server. Any thread.

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "server/api_error.h"
#include "server/api_keys.h"
#include "server/field_reader.h"
#include "server/http.h"

namespace millrace {

class Engine;
class ResponseCache;
struct Route;

struct ServiceOptions {
  std::vector<std::string> model_names;  // the first is the one in /v1/models; all are accepted
  ApiKeys keys;
  std::vector<std::string> allowed_origins;  // "*": any; empty: no cross-origin requests
  bool always_usage = false;                 // streams end with usage whether asked for or not
  // Refuse names in Host that are neither local nor those of an allowed origin:
  // for a server on the loopback interface without keys (host_check.h).
  bool checks_host = false;
  bool tells_clients_apart = false;  // by their keys
};

class Service {
 public:
  Service(ServiceOptions options, Metrics& metrics);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // The handler refers to this service.
  HttpHandler handler();

  // From now on requests reach the engine, which outlives the server. Until then they get 503.
  // response_cache: null, or outlives the server too.
  void set_engine(Engine& engine, ResponseCache* response_cache = nullptr);
  // Inference is refused from now on; requests that wait for Redis go on at once.
  void begin_drain();

  Engine* engine() const { return engine_.load(std::memory_order_acquire); }  // null: still loading
  ResponseCache* response_cache() const { return response_cache_; }           // null: none
  bool is_draining() const { return is_draining_.load(); }
  // Why inference is refused just now; empty when it is not.
  std::string unready_reason() const;

  const ServiceOptions& options() const { return options_; }
  Metrics& metrics() { return metrics_; }
  int64_t started_at() const { return started_at_; }  // seconds since 1970
  bool serves_model(std::string_view name) const;
  ApiError unknown_model(std::string_view name) const;

  // No model becomes the first name, one that is not served here is an error, unknown fields are
  // logged.
  ApiResult<void> accept(std::string_view path, BodyFields& fields);

 private:
  class AnswerInProgress;

  std::optional<HttpResponse> admit(const HttpRequest& head);
  Reply handle(HttpRequest request, const Waker& wake);
  // The number of its key; 0 where it does not matter.
  int client_of(const HttpRequest& request) const;
  // A request as the log shows it.
  struct LogEntry {
    std::string name;  // id, method, path
    TimePoint received;
  };
  // Headers and counting for what the endpoint has said.
  Reply finish_reply(const Route& route,
                     LogEntry entry,
                     std::vector<HttpHeader> headers,
                     Reply reply);
  std::optional<ApiError> check_host(const HttpRequest& request) const;
  std::optional<ApiError> check_origin(const HttpRequest& request) const;
  bool is_allowed_origin(std::string_view origin) const;
  HttpResponse preflight(const HttpRequest& request, const std::string& allow) const;
  std::vector<HttpHeader> headers_of_every_answer(const HttpRequest& request) const;
  // Logs each name once: a typing mistake, or a field that Millrace does not
  // know.
  void warn_unknown_fields(std::string_view path, const std::vector<std::string>& names);
  // Counts and logs a request by the status it was answered with.
  void conclude(const Route& route, const LogEntry& entry, int status) const;
  void count(std::string_view route, int status) const;

  const ServiceOptions options_;
  Metrics& metrics_;
  const int64_t started_at_;
  ResponseCache* response_cache_ = nullptr;  // constant once engine_ is set
  std::atomic<Engine*> engine_{nullptr};
  std::atomic<bool> is_draining_{false};

  mutable std::mutex mutex_;  // of what follows
  std::set<std::string> warned_fields_;
  mutable int64_t seen_steps_ = -1;  // of the engine when it last was seen to have advanced
  mutable TimePoint seen_at_{};
};

}  // namespace millrace

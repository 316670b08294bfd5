#include "server/service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "base/log.h"
#include "engine/engine.h"
#include "server/answer_id.h"
#include "server/cache_outcome.h"
#include "server/foreign_paths.h"
#include "server/host_check.h"
#include "server/json_text.h"
#include "server/response_cache/response_cache.h"
#include "server/routes.h"

namespace millrace {
namespace {

constexpr size_t kMaxWarnedFields = 256;
constexpr size_t kShownBytes = 100;  // of what a client wrote, in messages and in the log
// An engine with work that completes no step for so long is stuck, not slow.
constexpr double kStuckSeconds = 120;
// Fields of a request that nobody knows are listed here, the first few of them.
constexpr std::string_view kIgnoredFieldsHeader = "X-Millrace-Ignored-Fields";
constexpr int kMaxListedFields = 8;
// No status of HTTP: the client left before its answer was whole (the number is nginx's).
constexpr int kClientLeft = 499;

// "typ_p, stream_options.usage"; a name that a header cannot hold is left out.
std::string list_of_fields(const std::vector<std::string>& names) {
  std::string list;
  int n_listed = 0;
  for (const std::string& name : names) {
    const bool is_plain = name.size() <= kShownBytes && std::ranges::all_of(name, [](char c) {
                            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                   (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
                          });
    if (is_plain && n_listed++ < kMaxListedFields) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
    }
  }
  return list;
}

void append(std::vector<HttpHeader>& headers, const std::vector<HttpHeader>& more) {
  headers.insert(headers.end(), more.begin(), more.end());
}

Reply or_error(ApiResult<Reply> reply) {
  return reply ? std::move(*reply) : Reply{error_response(reply.error()), nullptr, false};
}

// What the endpoint says. What it throws is ours to answer for, and no reason
// to hang up.
template <class Say>
auto guarded(const Route& route, const Say& say) -> decltype(say()) {
  try {
    return say();
  } catch (const std::exception& error) {
    log_error("[http] {} failed: {}", route.path, error.what());
    return Reply{error_response({ApiCode::kInternalError, "internal error"}), nullptr, false};
  }
}

// "https://app.example:8443" is app.example.
std::string host_of_origin(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? "" : host_name(origin.substr(scheme + 3));
}

bool is_cross_origin(const HttpRequest& request, std::string_view origin) {
  const std::string* host = request.header("host");
  const size_t scheme = origin.find("://");
  return host == nullptr || scheme == std::string_view::npos || origin.substr(scheme + 3) != *host;
}

}  // namespace

// Around a source, so that an answer which takes a while is finished and counted by what became of
// it and not by what it looked like when it began.
class Service::AnswerInProgress : public ReplySource {
 public:
  AnswerInProgress(const Service& service,
                   const Route& route,
                   LogEntry entry,
                   std::vector<HttpHeader> headers,
                   Reply& reply)
      : service_(service),
        route_(route),
        entry_(std::move(entry)),
        headers_(std::move(headers)),
        streams_(reply.streams),
        source_(std::move(reply.source)) {}

  ~AnswerInProgress() override {
    if (!is_finished_) {
      service_.conclude(route_, entry_, kClientLeft);
    }
  }

  Progress pull(HttpResponse& response) override {
    Progress progress = Progress::kFinished;
    try {
      progress = source_->pull(response);
    } catch (const std::exception& error) {
      if (streams_) {  // a stream can only break off
        conclude(500);
        throw;
      }
      log_error("[http] {} failed: {}", route_.path, error.what());
      response = error_response({ApiCode::kInternalError, "internal error"});
    }
    if (progress == Progress::kFinished) {
      if (!streams_) {  // a stream's headers are out already
        append(response.headers, headers_);
      }
      conclude(response.status);
    }
    return progress;
  }

 private:
  void conclude(int status) {
    is_finished_ = true;
    service_.conclude(route_, entry_, status);
  }

  const Service& service_;
  const Route& route_;
  const LogEntry entry_;
  const std::vector<HttpHeader> headers_;
  const bool streams_;
  const std::unique_ptr<ReplySource> source_;
  bool is_finished_ = false;
};

Service::Service(ServiceOptions options, Metrics& metrics)
    : options_(std::move(options)), metrics_(metrics), started_at_(std::time(nullptr)) {}

HttpHandler Service::handler() {
  HttpHandler handler;
  handler.admit = [this](const HttpRequest& head) {
    auto refusal = admit(head);
    if (refusal) {
      std::vector<HttpHeader> headers = headers_of_every_answer(head);
      log_debug("[http] {} {} {} {}",
                headers.front().value,
                head.method,
                cut_text(head.path, kShownBytes),
                refusal->status);
      append(refusal->headers, std::move(headers));
    }
    return refusal;
  };
  handler.handle = [this](HttpRequest request, const Waker& wake) {
    return handle(std::move(request), wake);
  };
  handler.refuse = [this](int status, std::string_view reason, const HttpRequest* head) {
    count("", status);
    std::vector<HttpHeader> headers =
        headers_of_every_answer(head != nullptr ? *head : HttpRequest());
    log_debug("[http] {} {} {} {} {}",
              headers.front().value,
              head != nullptr ? head->method : "-",
              head != nullptr ? cut_text(head->path, kShownBytes) : "-",
              status,
              reason);
    HttpResponse response = error_response({code_of_refusal(status), std::string(reason)});
    append(response.headers, headers);
    return response;
  };
  return handler;
}

void Service::set_engine(Engine& engine, ResponseCache* response_cache) {
  response_cache_ = response_cache;
  engine_.store(&engine, std::memory_order_release);
}

void Service::begin_drain() {
  is_draining_.store(true);
  if (engine() != nullptr && response_cache_ != nullptr) {
    response_cache_->stop_looking_elsewhere();
  }
}

std::string Service::unready_reason() const {
  const Engine* engine = this->engine();
  if (engine == nullptr) {
    return "the model is still being loaded";
  }
  if (is_draining()) {
    return "the server is shutting down";
  }
  const EngineStats stats = engine->stats();
  const std::lock_guard lock(mutex_);
  if (stats.steps != seen_steps_ || stats.n_running + stats.n_waiting == 0) {
    seen_steps_ = stats.steps;
    seen_at_ = Clock::now();
  }
  return seconds_since(seen_at_) < kStuckSeconds ? "" : "the engine has not advanced for too long";
}

bool Service::serves_model(std::string_view name) const {
  return std::find(options_.model_names.begin(), options_.model_names.end(), name) !=
         options_.model_names.end();
}

ApiError Service::unknown_model(std::string_view name) const {
  return {ApiCode::kModelNotFound,
          fmt::format("model: '{}' is not served here; there is {} (--alias adds names)",
                      cut_text(name, kShownBytes),
                      fmt::join(options_.model_names, ", ")),
          "model"};
}

ApiResult<void> Service::accept(std::string_view path, BodyFields& fields) {
  if (fields.model.empty()) {
    fields.model = options_.model_names.front();
  } else if (!serves_model(fields.model)) {
    return tl::unexpected(unknown_model(fields.model));
  }
  warn_unknown_fields(path, fields.unknown);
  return {};
}

void Service::warn_unknown_fields(std::string_view path, const std::vector<std::string>& names) {
  for (const std::string& whole_name : names) {
    const std::string name(cut_text(whole_name, kShownBytes));
    const std::lock_guard lock(mutex_);
    if (warned_fields_.size() < kMaxWarnedFields &&
        warned_fields_.insert(fmt::format("{} {}", path, name)).second) {
      log_warning(
          "[{}] a request has the field {:?}, which is not known and was ignored{}",
          path,
          name,
          warned_fields_.size() == kMaxWarnedFields ? " (other names are no longer logged)" : "");
    }
  }
}

// Everything that the headers alone decide, so that nobody uploads a body in vain.
std::optional<HttpResponse> Service::admit(const HttpRequest& head) {
  const RouteMatch match = match_route(head.method, head.path);
  const auto refuse = [&](const ApiError& error) {
    count(match.route != nullptr ? match.route->path : "", error.status());
    return error_response(error);
  };
  for (const auto& error : {check_host(head), check_origin(head)}) {
    if (error) {
      return refuse(*error);
    }
  }
  if (head.method == "OPTIONS" && head.path == "*") {
    return preflight(head, "GET, HEAD, POST, OPTIONS");
  }
  if (match.allow.empty()) {
    const std::string tidy = tidy_path(head.path.substr(0, kShownBytes));
    const bool is_ours = !match_route(head.method, tidy).allow.empty();
    const std::string_view here = is_ours ? std::string_view(tidy) : instead_of(tidy);
    return refuse({ApiCode::kUnknownUrl,
                   fmt::format("there is no {} here{}{}",
                               cut_text(head.path, kShownBytes),
                               here.empty() ? "" : ": ",
                               here)});
  }
  if (head.method == "OPTIONS") {
    return preflight(head, match.allow);
  }
  if (match.route == nullptr) {
    HttpResponse response =
        refuse({ApiCode::kMethodNotAllowed,
                fmt::format("{} takes {}, not {}", head.path, match.allow, head.method)});
    response.headers.push_back({"Allow", match.allow});
    return response;
  }
  const std::string* authorization = head.header("authorization");
  if (!match.route->is_public && !options_.keys.allows(authorization ? *authorization : "")) {
    return refuse({ApiCode::kInvalidApiKey,
                   "the header 'Authorization: Bearer KEY' is missing or its key is not known"});
  }
  const std::string* encoding = head.header("content-encoding");
  if (encoding != nullptr && !equals_ignoring_case(*encoding, "identity")) {
    return refuse(
        {ApiCode::kUnsupportedEncoding,
         fmt::format("Content-Encoding {} is not supported: send the body as it is", *encoding)});
  }
  if (match.route->needs_engine) {
    if (const std::string reason = unready_reason(); !reason.empty()) {
      return refuse({ApiCode::kUnavailable, reason});
    }
  }
  return std::nullopt;
}

Reply Service::handle(HttpRequest request, const Waker& wake) {
  const RouteMatch match = match_route(request.method, request.path);
  if (match.route == nullptr) {  // admit lets no such request through
    return {error_response({ApiCode::kUnknownUrl, "not found"}), nullptr, false};
  }
  const std::string rest(match.rest);
  std::vector<HttpHeader> headers = headers_of_every_answer(request);
  const int client = client_of(request);
  const TimePoint received = request.received;
  Call call{*this, std::move(request), rest, wake, client};
  Reply reply = guarded(*match.route, [&] { return or_error(match.route->endpoint(call)); });
  if (std::string ignored = list_of_fields(call.ignored_fields); !ignored.empty()) {
    headers.push_back({std::string(kIgnoredFieldsHeader), std::move(ignored)});
  }
  LogEntry entry{fmt::format("{} {} {}",
                             headers.front().value,
                             call.request.method,
                             cut_text(call.request.path, kShownBytes)),
                 received};
  return finish_reply(*match.route, std::move(entry), std::move(headers), std::move(reply));
}

int Service::client_of(const HttpRequest& request) const {
  const std::string* authorization = request.header("authorization");
  return options_.tells_clients_apart && authorization != nullptr
             ? options_.keys.find(*authorization).value_or(0)
             : 0;
}

Reply Service::finish_reply(const Route& route,
                            LogEntry entry,
                            std::vector<HttpHeader> headers,
                            Reply reply) {
  if (reply.decide) {
    reply.decide = [this, &route, entry, headers, decide = reply.decide] {
      auto decided = guarded(route, decide);
      if (decided) {
        decided = finish_reply(route, entry, headers, std::move(*decided));
      }
      return decided;
    };
    return reply;
  }
  if (!reply.source || reply.streams) {
    append(reply.response.headers, headers);
  }
  if (reply.source) {
    reply.source = std::make_unique<AnswerInProgress>(
        *this, route, std::move(entry), std::move(headers), reply);
  } else {
    conclude(route, entry, reply.response.status);
  }
  return reply;
}

void Service::conclude(const Route& route, const LogEntry& entry, int status) const {
  count(route.path, status);
  log_debug(
      "[http] {} {} after {:.1f} ms", entry.name, status, 1e3 * seconds_since(entry.received));
}

bool Service::is_allowed_origin(std::string_view origin) const {
  return std::any_of(
      options_.allowed_origins.begin(),
      options_.allowed_origins.end(),
      [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

std::optional<ApiError> Service::check_host(const HttpRequest& request) const {
  const std::string* host = request.header("host");
  if (!options_.checks_host || host == nullptr) {
    return std::nullopt;
  }
  const std::string name = host_name(*host);
  const bool is_known =
      is_local_name(name) || std::any_of(options_.allowed_origins.begin(),
                                         options_.allowed_origins.end(),
                                         [&](const std::string& allowed) {
                                           return allowed == "*" || host_of_origin(allowed) == name;
                                         });
  if (is_known) {
    return std::nullopt;
  }
  return ApiError{ApiCode::kHostNotAllowed,
                  fmt::format("Host {} is not a name of this server: let the proxy send 'Host: "
                              "localhost', or allow its pages with --allow-origin",
                              cut_text(*host, kShownBytes))};
}

// A page from elsewhere must not even start work here, whether or not it could
// read the answer.
std::optional<ApiError> Service::check_origin(const HttpRequest& request) const {
  const std::string* origin = request.header("origin");
  if (origin == nullptr || !is_cross_origin(request, *origin) || is_allowed_origin(*origin)) {
    return std::nullopt;
  }
  return ApiError{ApiCode::kOriginNotAllowed,
                  fmt::format("pages of {} may not use this server (--allow-origin)",
                              cut_text(*origin, kShownBytes))};
}

HttpResponse Service::preflight(const HttpRequest& request, const std::string& allow) const {
  HttpResponse response;
  response.status = 204;
  response.content_type = "";
  response.headers.push_back({"Allow", allow});
  if (request.header("origin") != nullptr) {
    response.headers.push_back({"Access-Control-Allow-Methods", allow});
    const std::string* wanted = request.header("access-control-request-headers");
    response.headers.push_back({"Access-Control-Allow-Headers",
                                wanted != nullptr ? *wanted : "Authorization, Content-Type"});
    response.headers.push_back({"Access-Control-Max-Age", "600"});
  }
  return response;
}

// The id first.
std::vector<HttpHeader> Service::headers_of_every_answer(const HttpRequest& request) const {
  std::vector<HttpHeader> headers = {{"X-Request-Id", request_id(request)}};
  const std::string* origin = request.header("origin");
  if (origin != nullptr && is_allowed_origin(*origin)) {
    headers.push_back({"Access-Control-Allow-Origin", *origin});
    headers.push_back(
        {"Access-Control-Expose-Headers",
         fmt::format(
             "X-Request-Id, Retry-After, {}, {}", kIgnoredFieldsHeader, kResponseCacheHeader)});
    headers.push_back({"Vary", "Origin"});
  }
  return headers;
}

void Service::count(std::string_view route, int status) const {
  metrics_
      .counter(
          "millrace_http_requests_total",
          "Requests by route and by the status of their answer (499: the client left before it "
          "was whole; a stream that broke off has the status of its error)",
          {{"route", route.empty() ? "none" : std::string(route)},
           {"status", fmt::format("{}", status)}})
      .add();
}

}  // namespace millrace

#include "server/service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "engine/engine.h"
#include "server/routes.h"

namespace millrace {
namespace {

constexpr size_t kMaxWarnedFields = 256;
// An engine with work that completes no step for so long is stuck, not slow.
constexpr double kStuckSeconds = 120;
// No status of HTTP: the client left before its answer was whole (the number is nginx's).
constexpr int kClientLeft = 499;

void append(std::vector<HttpHeader>& headers, const std::vector<HttpHeader>& more) {
  headers.insert(headers.end(), more.begin(), more.end());
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
                   const HttpRequest& request,
                   const Route& route,
                   Reply& reply)
      : service_(service),
        route_(route),
        method_(request.method),
        path_(request.path),
        headers_(service.headers_of_every_answer(request)),
        streams_(reply.streams),
        source_(std::move(reply.source)) {}

  ~AnswerInProgress() override {
    if (!is_finished_) {
      service_.conclude(route_, method_, path_, kClientLeft);
    }
  }

  Progress pull(HttpResponse& response) override {
    const Progress progress = source_->pull(response);
    if (progress == Progress::kFinished) {
      is_finished_ = true;
      if (!streams_) {  // a stream's headers are out already
        append(response.headers, headers_);
      }
      service_.conclude(route_, method_, path_, response.status);
    }
    return progress;
  }

 private:
  const Service& service_;
  const Route& route_;
  const std::string method_;
  const std::string path_;
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
      append(refusal->headers, headers_of_every_answer(head));
    }
    return refusal;
  };
  handler.handle = [this](HttpRequest request, const Waker& wake) {
    return handle(std::move(request), wake);
  };
  handler.refuse = [this](int status, std::string_view reason) {
    count("", status);
    return error_response({status, std::string(reason), "", ""});
  };
  return handler;
}

void Service::set_engine(Engine& engine) {
  engine_.store(&engine, std::memory_order_release);
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
  return {404,
          fmt::format("model: '{}' is not served here; there is {} (--alias adds names)",
                      name,
                      fmt::join(options_.model_names, ", ")),
          "model",
          "model_not_found"};
}

void Service::warn_unknown_fields(std::string_view path, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::lock_guard lock(mutex_);
    if (warned_fields_.size() < kMaxWarnedFields &&
        warned_fields_.insert(fmt::format("{} {}", path, name)).second) {
      log_warning("[{}] a request has the field {:?}, which is not known and was ignored",
                  path,
                  name.substr(0, 100));
    }
  }
}

// Everything that the headers alone decide, so that nobody uploads a body in vain.
std::optional<HttpResponse> Service::admit(const HttpRequest& head) {
  const RouteMatch match = match_route(head.method, head.path);
  const auto refuse = [&](ApiError error) {
    count(match.route != nullptr ? match.route->path : "", error.status);
    return error_response(error);
  };
  if (const auto error = check_origin(head)) {
    return refuse(*error);
  }
  if (match.allow.empty()) {
    return refuse({404, fmt::format("there is no {} here", head.path), "", "unknown_url"});
  }
  if (head.method == "OPTIONS") {
    return preflight(head, match.allow);
  }
  if (match.route == nullptr) {
    HttpResponse response = refuse(
        {405, fmt::format("{} takes {}, not {}", head.path, match.allow, head.method), "", ""});
    response.headers.push_back({"Allow", match.allow});
    return response;
  }
  const std::string* authorization = head.header("authorization");
  if (!match.route->is_public && !options_.keys.allows(authorization ? *authorization : "")) {
    return refuse({401,
                   "the header 'Authorization: Bearer KEY' is missing or its key is not known",
                   "",
                   "invalid_api_key"});
  }
  const std::string* encoding = head.header("content-encoding");
  if (encoding != nullptr && !equals_ignoring_case(*encoding, "identity")) {
    return refuse(
        {415,
         fmt::format("Content-Encoding {} is not supported: send the body as it is", *encoding),
         "",
         "unsupported_encoding"});
  }
  if (match.route->needs_engine) {
    if (const std::string reason = unready_reason(); !reason.empty()) {
      return refuse({503, reason, "", "unavailable"});
    }
  }
  return std::nullopt;
}

Reply Service::handle(HttpRequest request, const Waker& wake) {
  const RouteMatch match = match_route(request.method, request.path);
  if (match.route == nullptr) {  // admit lets no such request through
    return {error_response({404, "not found", "", ""}), nullptr, false};
  }
  const std::string rest(match.rest);
  Call call{*this, std::move(request), rest, wake};
  Reply reply = match.route->endpoint(call);
  if (!reply.source || reply.streams) {
    append(reply.response.headers, headers_of_every_answer(call.request));
  }
  if (reply.source) {
    reply.source = std::make_unique<AnswerInProgress>(*this, call.request, *match.route, reply);
  } else {
    conclude(*match.route, call.request.method, call.request.path, reply.response.status);
  }
  return reply;
}

void Service::conclude(const Route& route,
                       std::string_view method,
                       std::string_view path,
                       int status) const {
  count(route.path, status);
  if (!route.is_public) {
    log_debug("[http] {} {} {}", method, path, status);
  }
}

bool Service::is_allowed_origin(std::string_view origin) const {
  return std::any_of(
      options_.allowed_origins.begin(),
      options_.allowed_origins.end(),
      [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

// A page from elsewhere must not even start work here, whether or not it could read the answer.
std::optional<ApiError> Service::check_origin(const HttpRequest& request) const {
  const std::string* origin = request.header("origin");
  if (origin == nullptr || !is_cross_origin(request, *origin) || is_allowed_origin(*origin)) {
    return std::nullopt;
  }
  return ApiError{403,
                  fmt::format("pages of {} may not use this server (--allow-origin)", *origin),
                  "",
                  "origin_not_allowed"};
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

std::vector<HttpHeader> Service::headers_of_every_answer(const HttpRequest& request) const {
  const std::string* origin = request.header("origin");
  if (origin == nullptr || !is_allowed_origin(*origin)) {
    return {};
  }
  return {{"Access-Control-Allow-Origin", *origin}, {"Vary", "Origin"}};
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

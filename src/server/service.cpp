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

bool is_cross_origin(const HttpRequest& request, std::string_view origin) {
  const std::string* host = request.header("host");
  const size_t scheme = origin.find("://");
  return host == nullptr || scheme == std::string_view::npos || origin.substr(scheme + 3) != *host;
}

}  // namespace

Service::Service(ServiceOptions options, Metrics& metrics)
    : options_(std::move(options)), metrics_(metrics), started_at_(std::time(nullptr)) {}

HttpHandler Service::handler() {
  HttpHandler handler;
  handler.admit = [this](const HttpRequest& head) {
    auto refusal = admit(head);
    if (refusal) {
      refusal = finish(head, std::move(*refusal));
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
  reply.response = finish(call.request, std::move(reply.response));
  count(match.route->path, reply.response.status);
  if (!match.route->is_public) {
    log_debug("[http] {} {} {}", call.request.method, call.request.path, reply.response.status);
  }
  return reply;
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

HttpResponse Service::finish(const HttpRequest& request, HttpResponse response) const {
  const std::string* origin = request.header("origin");
  if (origin != nullptr && is_allowed_origin(*origin)) {
    response.headers.push_back({"Access-Control-Allow-Origin", *origin});
    response.headers.push_back({"Vary", "Origin"});
  }
  return response;
}

void Service::count(std::string_view route, int status) {
  metrics_
      .counter("millrace_http_requests_total",
               "Requests by route and by the status they were answered with",
               {{"route", route.empty() ? "none" : std::string(route)},
                {"status", fmt::format("{}", status)}})
      .add();
}

}  // namespace millrace

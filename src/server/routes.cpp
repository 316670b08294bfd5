#include "server/routes.h"

#include <array>

#include "server/api/endpoints.h"

namespace millrace {
namespace {

constexpr std::array kRoutes = {
    Route{"GET", "/health", get_health_ready, true, false},  // where most probes look
    Route{"GET", "/health/live", get_health_live, true, false},
    Route{"GET", "/health/ready", get_health_ready, true, false},
    Route{"GET", "/metrics", get_metrics, false, false},
    Route{"GET", "/v1/models", list_models, false, true},
    Route{"GET", "/v1/models/*", get_model, false, true},
    Route{"POST", "/v1/completions", create_completion, false, true},
    Route{"POST", "/v1/chat/completions", create_chat_completion, false, true},
    Route{"POST", "/tokenize", tokenize, false, true},
    Route{"POST", "/detokenize", detokenize, false, true},
};

bool matches(const Route& route, std::string_view path, std::string_view& rest) {
  if (!route.path.ends_with('*')) {
    return path == route.path;
  }
  const std::string_view prefix = route.path.substr(0, route.path.size() - 1);
  if (!path.starts_with(prefix) || path.size() == prefix.size()) {
    return false;
  }
  rest = path.substr(prefix.size());
  return true;
}

}  // namespace

RouteMatch match_route(std::string_view method, std::string_view path) {
  RouteMatch match;
  for (const Route& route : kRoutes) {
    std::string_view rest;
    if (!matches(route, path, rest)) {
      continue;
    }
    match.allow += route.method;
    match.allow += route.method == "GET" ? ", HEAD, " : ", ";
    if (method == route.method || (method == "HEAD" && route.method == "GET")) {
      match.route = &route;
      match.rest = rest;
    }
  }
  if (!match.allow.empty()) {
    match.allow += "OPTIONS";
  }
  return match;
}

}  // namespace millrace

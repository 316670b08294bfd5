#pragma once
// The table of endpoints. Each is one function in api/; a new one is a file there and a row here.

#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/http.h"

namespace millrace {

class Service;

struct Call {
  Service& service;
  HttpRequest request;
  std::string_view rest;  // of the path, where the route ends in '*'
  Waker wake;
  int client = 0;  // who asks: the number of the key, where it matters
  std::vector<std::string> ignored_fields = {};  // of the body: nobody knows them
};

using Endpoint = ApiResult<Reply> (*)(Call& call);

struct Route {
  std::string_view method;
  std::string_view path;  // "/v1/models/*" takes any rest of at least one character
  Endpoint endpoint = nullptr;
  bool is_public = false;     // needs no key
  bool needs_engine = false;  // 503 until the model is loaded
};

struct RouteMatch {
  const Route* route = nullptr;  // null: the path or the method is unknown
  std::string_view rest;
  std::string allow;  // the methods of this path, "GET, HEAD, OPTIONS"; empty: unknown path
};

// HEAD is served by GET's route. The rest is a view of path.
RouteMatch match_route(std::string_view method, std::string_view path);

}  // namespace millrace

#pragma once
// What a client is told when its request cannot be served, in OpenAI's shape. Any thread.

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http.h"

namespace millrace {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // the field at fault, "messages[1].content[0].type"; empty: none
  std::string code;   // machine-readable, empty: none
};

// What a function gives that can fail because of the request: Result with the
// error that the client is told.
template <class T>
using ApiResult = tl::expected<T, ApiError>;

// {"error":{"message":...,"type":...,"param":...,"code":...}}
std::string error_json(const ApiError& error);
// With Retry-After on 429 and 503, WWW-Authenticate on 401.
HttpResponse error_response(const ApiError& error);

// The engine's and the template's errors as HTTP sees them: 400, 404, 429, 500, 503.
ApiError to_api_error(const Error& error);

}  // namespace millrace

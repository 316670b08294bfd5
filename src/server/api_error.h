#pragma once
// What a client is told when its request cannot be served, in OpenAI's shape. Any thread.

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http.h"

namespace millrace {

// Every machine-readable reason; OpenAI's names where it has one. docs/api.md says what each means.
enum class ApiCode {
  kInvalidJson,
  kTooManyValues,
  kInvalidType,
  kInvalidValue,
  kMissingRequiredParameter,
  kUnsupportedParameter,
  kContextLengthExceeded,
  kNoChatTemplate,
  kTemplateLimit,
  kMalformedRequest,
  kInvalidApiKey,
  kHostNotAllowed,
  kOriginNotAllowed,
  kUnknownUrl,
  kModelNotFound,
  kMethodNotAllowed,
  kRequestTimeout,
  kBodyTooLarge,
  kUnsupportedEncoding,
  kExpectationFailed,
  kRateLimitExceeded,
  kHeadersTooLarge,
  kInternalError,
  kUnsupportedTransferCoding,
  kUnavailable,
  kOverloaded,
  kDeadlineExceeded,
};

struct ApiCodeRow {
  ApiCode code;
  int status;
  const char* name;  // "invalid_json"
};
std::span<const ApiCodeRow> api_codes();  // in the order of ApiCode

struct ApiError {
  ApiCode code = ApiCode::kInternalError;
  std::string message;
  std::string param = {};  // the field at fault, "messages[1].content[0].type"; empty: none

  int status() const;
  const char* code_name() const;
};

// What a function gives that can fail because of the request: Result with the
// error that the client is told.
template <class T>
using ApiResult = tl::expected<T, ApiError>;

// {"error":{"message":...,"type":...,"param":...,"code":...}}
std::string error_json(const ApiError& error);
// With Retry-After on 429 and 503, WWW-Authenticate on 401.
HttpResponse error_response(const ApiError& error);

// The engine's and the template's errors as HTTP sees them.
ApiError to_api_error(const Error& error);
// What the transport refuses by itself (HttpHandler::refuse).
ApiCode code_of_refusal(int status);

}  // namespace millrace

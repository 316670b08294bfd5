#include "server/api_error.h"

#include <fmt/format.h>

#include "server/json_text.h"

namespace millrace {
namespace {

const char* error_type(int status) {
  switch (status) {
    case 401:
    case 403:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string string_or_null(std::string_view text) {
  return text.empty() ? "null" : json_string(text);
}

}  // namespace

std::string error_json(const ApiError& error) {
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})",
                     json_string(error.message),
                     error_type(error.status),
                     string_or_null(error.param),
                     string_or_null(error.code));
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error);
  if (error.status == 429 || error.status == 503) {
    response.headers.push_back({"Retry-After", "1"});
  } else if (error.status == 401) {
    response.headers.push_back({"WWW-Authenticate", "Bearer"});
  }
  return response;
}

ApiError to_api_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return {400, error.message, "", error_code_name(error.code)};
    case ErrorCode::kContextLength:
      return {400, error.message, "", "context_length_exceeded"};
    case ErrorCode::kNotFound:
      return {404, error.message, "", error_code_name(error.code)};
    case ErrorCode::kResourceExhausted:
      return {429, error.message, "", "overloaded"};
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
      return {503, error.message, "", error_code_name(error.code)};
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return {500, error.message, "", error_code_name(error.code)};
}

}  // namespace millrace

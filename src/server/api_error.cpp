#include "server/api_error.h"

#include <fmt/format.h>

#include <array>

#include "server/json_text.h"

namespace millrace {
namespace {

constexpr std::array kCodes = {
    ApiCodeRow{ApiCode::kInvalidJson, 400, "invalid_json"},
    ApiCodeRow{ApiCode::kTooManyValues, 400, "too_many_values"},
    ApiCodeRow{ApiCode::kInvalidType, 400, "invalid_type"},
    ApiCodeRow{ApiCode::kInvalidValue, 400, "invalid_value"},
    ApiCodeRow{ApiCode::kMissingRequiredParameter, 400, "missing_required_parameter"},
    ApiCodeRow{ApiCode::kUnsupportedParameter, 400, "unsupported_parameter"},
    ApiCodeRow{ApiCode::kContextLengthExceeded, 400, "context_length_exceeded"},
    ApiCodeRow{ApiCode::kNoChatTemplate, 400, "no_chat_template"},
    ApiCodeRow{ApiCode::kTemplateLimit, 400, "template_limit"},
    ApiCodeRow{ApiCode::kMalformedRequest, 400, "malformed_request"},
    ApiCodeRow{ApiCode::kInvalidApiKey, 401, "invalid_api_key"},
    ApiCodeRow{ApiCode::kHostNotAllowed, 403, "host_not_allowed"},
    ApiCodeRow{ApiCode::kOriginNotAllowed, 403, "origin_not_allowed"},
    ApiCodeRow{ApiCode::kUnknownUrl, 404, "unknown_url"},
    ApiCodeRow{ApiCode::kModelNotFound, 404, "model_not_found"},
    ApiCodeRow{ApiCode::kMethodNotAllowed, 405, "method_not_allowed"},
    ApiCodeRow{ApiCode::kRequestTimeout, 408, "request_timeout"},
    ApiCodeRow{ApiCode::kBodyTooLarge, 413, "body_too_large"},
    ApiCodeRow{ApiCode::kUnsupportedEncoding, 415, "unsupported_encoding"},
    ApiCodeRow{ApiCode::kExpectationFailed, 417, "expectation_failed"},
    ApiCodeRow{ApiCode::kRateLimitExceeded, 429, "rate_limit_exceeded"},
    ApiCodeRow{ApiCode::kHeadersTooLarge, 431, "headers_too_large"},
    ApiCodeRow{ApiCode::kInternalError, 500, "internal_error"},
    ApiCodeRow{ApiCode::kUnsupportedTransferCoding, 501, "unsupported_transfer_coding"},
    ApiCodeRow{ApiCode::kUnavailable, 503, "unavailable"},
    ApiCodeRow{ApiCode::kOverloaded, 503, "overloaded"},
    ApiCodeRow{ApiCode::kDeadlineExceeded, 504, "deadline_exceeded"},
};

constexpr bool is_in_order() {
  for (size_t i = 0; i < kCodes.size(); ++i) {
    if (kCodes[i].code != static_cast<ApiCode>(i)) {
      return false;
    }
  }
  return kCodes.back().code == ApiCode::kDeadlineExceeded;
}
static_assert(is_in_order());

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

}  // namespace

std::span<const ApiCodeRow> api_codes() {
  return kCodes;
}

int ApiError::status() const {
  return kCodes[static_cast<size_t>(code)].status;
}

const char* ApiError::code_name() const {
  return kCodes[static_cast<size_t>(code)].name;
}

std::string error_json(const ApiError& error) {
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":"{}"}}}})",
                     json_string(error.message),
                     error_type(error.status()),
                     error.param.empty() ? "null" : json_string(error.param),
                     error.code_name());
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status();
  response.body = error_json(error);
  if (response.status == 429 || response.status == 503) {
    response.headers.push_back({"Retry-After", "1"});
  } else if (response.status == 401) {
    response.headers.push_back({"WWW-Authenticate", "Bearer"});
  }
  return response;
}

ApiError to_api_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return {ApiCode::kInvalidValue, error.message};
    case ErrorCode::kUnsupported:
      return {ApiCode::kUnsupportedParameter, error.message};
    case ErrorCode::kContextLength:
      return {ApiCode::kContextLengthExceeded, error.message};
    case ErrorCode::kResourceExhausted:
      return {ApiCode::kRateLimitExceeded, error.message};
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
      return {ApiCode::kUnavailable, error.message};
    case ErrorCode::kDeadlineExceeded:
      return {ApiCode::kDeadlineExceeded, error.message};
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return {ApiCode::kInternalError, error.message};
}

ApiCode code_of_refusal(int status) {
  switch (status) {
    case 400:
      return ApiCode::kMalformedRequest;
    case 408:
      return ApiCode::kRequestTimeout;
    case 413:
      return ApiCode::kBodyTooLarge;
    case 417:
      return ApiCode::kExpectationFailed;
    case 431:
      return ApiCode::kHeadersTooLarge;
    case 501:
      return ApiCode::kUnsupportedTransferCoding;
    case 503:
      return ApiCode::kOverloaded;
    default:
      return ApiCode::kInternalError;
  }
}

}  // namespace millrace

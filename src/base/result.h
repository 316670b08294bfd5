#pragma once
// Errors that are the caller's or the world's fault travel as values: Result<T> and Error.
// Errors of our own go to MR_CHECK (check.h). Any thread.

#include <fmt/core.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace millrace {

enum class ErrorCode {
  kInvalidArgument,    // the request or the command line is wrong
  kContextLength,      // prompt and answer do not fit the model's window
  kNotFound,           // a file, a model or a name does not exist
  kUnsupported,        // well formed, but Millrace does not do this
  kCorrupt,            // a file contradicts itself or ends early
  kResourceExhausted,  // memory, queue or limit is full; trying later may help
  kUnavailable,        // shutting down or still loading
  kDeadlineExceeded,   // the time that the caller gave it is over
  kCancelled,          // the caller withdrew the request
  kIo,                 // the operating system said no
  kInternal,           // a failure of ours that one request could be blamed for
};

// The enumerator's name without the k, in snake_case: "invalid_argument".
const char* error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // says where, what was expected, what came
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

// fail(ErrorCode::kCorrupt, "[gguf] {}: version {} is not 2 or 3", path, version)
template <class... Args>
tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// Passes the error of a failed Result on: `if (!file) return propagate(file);`
template <class T>
tl::unexpected<Error> propagate(const Result<T>& failed) {
  return tl::unexpected<Error>(failed.error());
}

}  // namespace millrace

#pragma once
// Failures inside the template engine travel as this exception from the lexer, the parser and the
// interpreter to ChatTemplate, which turns them into an Error. It never leaves the module.

#include <fmt/core.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace millrace {

struct TemplateError {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;
  bool is_raised = false;  // by raise_exception: the message goes to the client as it is
};

template <class... Args>
[[noreturn]] void template_fail(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError{
      ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...), false};
}

}  // namespace millrace

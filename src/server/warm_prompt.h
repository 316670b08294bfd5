#pragma once
// Prompts that a server computes before its first request. Pure functions.

#include <string_view>

#include "base/result.h"
#include "engine/request.h"

namespace millrace {

class Engine;
class Service;

// A line of text is a prompt as it is, one that begins with { is a body of /v1/chat/completions.
// Errors say what is wrong with it, a model that the service has not among them; unknown fields are
// none. The request asks for one token.
Result<Request> parse_warm_prompt(const Service& service,
                                  const Engine& engine,
                                  std::string_view line);

}  // namespace millrace

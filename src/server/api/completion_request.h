#pragma once
// The typed form of a /v1/completions body. Pure functions, any thread.

#include <string>
#include <variant>
#include <vector>

#include "server/generation.h"

namespace millrace {

struct CompletionRequest {
  GenerationFields fields;
  // Each prompt as text (a string, that is large and not copied) or as ids, in the order of the
  // request.
  std::vector<std::variant<Value, std::vector<TokenId>>> prompts;
  bool echo = false;
  bool add_special_tokens = true;  // BOS where the model wants it, before prompts given as text
};

ApiResult<CompletionRequest> parse_completion_request(const Value& body);

}  // namespace millrace

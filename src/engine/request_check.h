#pragma once
// Everything that can be wrong with a request, found before it is queued. Any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/request.h"

namespace millrace {

struct RequestLimits {
  int32_t n_vocab = 0;        // ids are 0 .. n_vocab - 1
  int64_t max_model_len = 0;  // prompt + answer
  int64_t max_waiting = 0;    // choices that the queue can hold
};

// What whoever asks calls the fields, where that may differ.
struct RequestNames {
  std::string_view prompt = "prompt";
  std::string_view max_tokens = "max_tokens";
  std::string_view stop_tokens = "stop_tokens";
};

// kInvalidArgument tells range and value, kContextLength the counts.
struct RequestFault {
  std::string field;  // by its name: "prompt", "logprobs", "top_p"
  Error error;        // its message begins with the name
};

std::optional<RequestFault> find_fault(const Request& request,
                                       const RequestLimits& limits,
                                       const RequestNames& names = {});
Result<void> check_request(const Request& request, const RequestLimits& limits);

// Tokens that an answer may have: what was asked for, or what the window leaves (at least 1 for a
// request that passed check_request).
int64_t answer_limit(const Request& request, const RequestLimits& limits);

}  // namespace millrace

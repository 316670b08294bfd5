#pragma once
// Which requests the response cache may serve, and what makes two of them the same. Pure functions,
// any thread.

#include <span>

#include "base/digest.h"
#include "engine/request.h"
#include "engine/request_check.h"
#include "server/http.h"

namespace millrace {

struct CacheUse {
  bool reads = false;
  bool writes = false;
};

// Only where the answer is a function of the request: at temperature 0, or with a seed that the
// client gave (has_seed). Cache-Control: no-store means neither, no-cache means not to read. What
// may end at its deadline is not written.
CacheUse cache_use(const HttpRequest& http, const Request& request, bool has_seed);

// At temperature 0 nothing is drawn, so the seed does not matter.
bool is_greedy(const SamplingParams& sampling);

// Equal for requests (one a prompt) with equal answers by all that decides about them: token ids of
// the prompts and every parameter after defaults. What only decides how the answer is computed
// or written (priority, prediction, streaming, echo) does not count.
Digest256 request_key(std::span<const Request> requests, const RequestLimits& limits);

}  // namespace millrace

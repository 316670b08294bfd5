#pragma once
// A token and its log probability, as reported to clients.

#include "base/types.h"

namespace millrace {

struct TopLogprob {
  TokenId token = 0;
  float logprob = 0;
};

}  // namespace millrace

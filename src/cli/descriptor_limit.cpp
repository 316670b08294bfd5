#include "cli/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace millrace {

int64_t raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  const bool is_raised = ::setrlimit(RLIMIT_NOFILE, &raised) == 0;
  const rlim_t allowed = is_raised ? limit.rlim_max : limit.rlim_cur;
  return static_cast<int64_t>(std::min<rlim_t>(allowed, INT64_MAX));  // RLIM_INFINITY is more
}

}  // namespace millrace

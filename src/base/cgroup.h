#pragma once
// What the control groups of this process grant it: version 2, version 1, or both mounted side by
// side. Any thread.

#include <cstdint>
#include <optional>
#include <string>

namespace millrace {

struct CgroupLimits {
  double cpus = 0;                             // processors' worth of time; 0: unlimited
  std::optional<int64_t> free_memory_bytes{};  // may still be taken; absent: unlimited
};

// The tightest of the process's own group and all groups above it that can be seen: inside a
// container those end at the container's mount. Cached file pages that the kernel would drop first
// (inactive_file) count as free. root stands before every path that is read
// (/proc/self/cgroup, /proc/self/mountinfo and the mounts named there): a test gives its own tree.
CgroupLimits read_cgroup_limits(const std::string& root = "");

}  // namespace millrace

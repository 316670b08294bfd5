#pragma once
// How many processors this process may really use.

#include <cstdint>
#include <vector>

namespace millrace {

struct CpuInfo {
  int n_affinity = 1;                        // processors in the affinity mask
  int n_physical_cores = 1;                  // distinct cores among them; SMT siblings count once
  double quota = 0;                          // CPUs granted by the cgroups (cgroup.h); 0: unlimited
  std::vector<int64_t> last_level_caches{};  // bytes of those it may use (cpu_caches.h)
};

CpuInfo read_cpu_info();

// floor(min(affinity, quota, physical cores)), at least 1: more compute threads than that only
// throttle each other.
int default_thread_count(const CpuInfo& info);

}  // namespace millrace

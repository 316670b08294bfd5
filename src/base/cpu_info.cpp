#include "base/cpu_info.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/cgroup.h"
#include "base/cpu_caches.h"

namespace millrace {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

int count_physical_cores(const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const std::string siblings = first_line(folder + "thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

}  // namespace

CpuInfo read_cpu_info() {
  CpuInfo info;
  const std::vector<int> cpus = affinity_cpus();
  info.n_affinity = cpus.empty()
                        ? static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))
                        : static_cast<int>(cpus.size());
  info.n_physical_cores = cpus.empty() ? info.n_affinity : count_physical_cores(cpus);
  info.quota = read_cgroup_limits().cpus;
  info.last_level_caches = last_level_caches(cpus);
  return info;
}

int default_thread_count(const CpuInfo& info) {
  int n = std::min(info.n_affinity, info.n_physical_cores);
  if (info.quota > 0) {
    n = std::min(n, static_cast<int>(info.quota));
  }
  return std::max(1, n);
}

}  // namespace millrace

#include "base/cpu_info.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

// The folder of this process in the hierarchy whose /proc/self/cgroup line has `controllers`.
std::string cgroup_folder(const std::string& controllers) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string names = line.substr(first + 1, second - first - 1);
    if (names == controllers || (!controllers.empty() && names.find(controllers) == 0)) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

// CPUs granted by one folder of the hierarchy; 0: unlimited or not a cgroup.
double quota_v2(const std::string& folder) {
  std::istringstream fields(first_line(folder + "/cpu.max"));
  std::string quota;
  double period = 0;
  if (!(fields >> quota >> period) || quota == "max" || period <= 0) {
    return 0;
  }
  return std::strtod(quota.c_str(), nullptr) / period;
}

double quota_v1(const std::string& folder) {
  const double quota = std::strtod(first_line(folder + "/cpu.cfs_quota_us").c_str(), nullptr);
  const double period = std::strtod(first_line(folder + "/cpu.cfs_period_us").c_str(), nullptr);
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The tightest limit between the process's own folder and the root of the hierarchy. Inside a
// container the path of the host may not exist below the mount; then only the root is read.
template <class Quota>
double tightest(const std::string& mount, std::string folder, const Quota& quota) {
  double tightest = 0;
  while (true) {
    const double here = quota(mount + (folder == "/" ? "" : folder));
    if (here > 0 && (tightest == 0 || here < tightest)) {
      tightest = here;
    }
    if (folder.empty() || folder == "/") {
      return tightest;
    }
    folder.erase(folder.rfind('/'));
  }
}

}  // namespace

CpuInfo read_cpu_info() {
  CpuInfo info;
  const std::vector<int> cpus = affinity_cpus();
  info.n_affinity = cpus.empty()
                        ? static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))
                        : static_cast<int>(cpus.size());
  info.n_physical_cores = cpus.empty() ? info.n_affinity : count_physical_cores(cpus);
  const double v2 = tightest("/sys/fs/cgroup", cgroup_folder(""), quota_v2);
  const double v1 = tightest("/sys/fs/cgroup/cpu", cgroup_folder("cpu"), quota_v1);
  info.quota = v2 > 0 && v1 > 0 ? std::min(v1, v2) : std::max(v1, v2);
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

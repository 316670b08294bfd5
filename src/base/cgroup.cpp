#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Absent for "max", and for a file that is not there.
std::optional<int64_t> read_number(const std::string& path) {
  const std::string line = first_line(path);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error == std::errc::result_out_of_range) {  // version 1 writes "unlimited" as a huge number
    return std::nullopt;
  }
  return error == std::errc() && end != line.data() ? std::optional(value) : std::nullopt;
}

int64_t read_statistic(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == wanted) {
      return value;
    }
  }
  return 0;
}

// A mounted hierarchy. Without controllers it is version 2, which has all of them in one tree.
struct Mount {
  std::string root;   // the group that is seen at the mount point
  std::string point;  // folder
  bool is_v2 = false;
  std::vector<std::string> controllers = {};
};

// proc(5): ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS
std::vector<Mount> read_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) {
      continue;
    }
    if (dash[1] == "cgroup2") {
      mounts.push_back({.root = fields[3], .point = fields[4], .is_v2 = true});
    } else if (dash[1] == "cgroup") {
      mounts.push_back({.root = fields[3], .point = fields[4], .controllers = split(dash[3], ',')});
    }
  }
  return mounts;
}

// The process's group within a hierarchy. cgroups(7): ID:CONTROLLERS:PATH, version 2 as "0::PATH".
std::string group_path(const std::string& root, const Mount& mount, std::string_view controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string names = line.substr(first + 1, second - first - 1);
    if (mount.is_v2 ? names.empty() : contains(split(names, ','), controller)) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

// The folders of the process's group and of those above it, as far as the mount shows them. A path
// of the host that a container's mount does not hold leaves the mount point alone.
std::vector<std::string> group_folders(const std::string& root,
                                       const Mount& mount,
                                       std::string_view controller) {
  std::string path = group_path(root, mount, controller);
  if (mount.root != "/") {
    const bool is_below = path.starts_with(mount.root) &&
                          (path.size() == mount.root.size() || path[mount.root.size()] == '/');
    path = is_below ? path.substr(mount.root.size()) : "";
  }
  if (path == "/" || path.find("/..") != std::string::npos) {
    path.clear();
  }
  std::vector<std::string> folders;
  while (!path.empty()) {
    folders.push_back(root + mount.point + path);
    path.erase(path.rfind('/'));
  }
  folders.push_back(root + mount.point);
  return folders;
}

// Processors granted by one group; 0: unlimited.
double cpus_of(const std::string& folder, bool is_v2) {
  double quota = 0;
  double period = 0;
  if (is_v2) {
    std::istringstream fields(first_line(folder + "/cpu.max"));
    fields >> quota >> period;  // "max 100000" leaves both at 0
  } else {
    quota = static_cast<double>(read_number(folder + "/cpu.cfs_quota_us").value_or(-1));
    period = static_cast<double>(read_number(folder + "/cpu.cfs_period_us").value_or(0));
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

std::optional<int64_t> free_memory_of(const std::string& folder, bool is_v2) {
  std::optional<int64_t> limit;
  for (const char* name :
       is_v2 ? std::vector{"/memory.max", "/memory.high"} : std::vector{"/memory.limit_in_bytes"}) {
    if (const auto value = read_number(folder + name)) {
      limit = std::min(limit.value_or(std::numeric_limits<int64_t>::max()), *value);
    }
  }
  const auto usage = read_number(folder + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !usage) {
    return std::nullopt;
  }
  const int64_t cached =
      read_statistic(folder + "/memory.stat", is_v2 ? "inactive_file" : "total_inactive_file");
  const int64_t used = std::max<int64_t>(*usage - std::max<int64_t>(cached, 0), 0);
  return std::max<int64_t>(*limit - used, 0);
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  for (const Mount& mount : read_mounts(root)) {
    if (mount.is_v2 || contains(mount.controllers, "cpu")) {
      for (const std::string& folder : group_folders(root, mount, "cpu")) {
        const double cpus = cpus_of(folder, mount.is_v2);
        if (cpus > 0 && (limits.cpus == 0 || cpus < limits.cpus)) {
          limits.cpus = cpus;
        }
      }
    }
    if (mount.is_v2 || contains(mount.controllers, "memory")) {
      for (const std::string& folder : group_folders(root, mount, "memory")) {
        if (const auto free = free_memory_of(folder, mount.is_v2)) {
          limits.free_memory_bytes = std::min(limits.free_memory_bytes.value_or(*free), *free);
        }
      }
    }
  }
  return limits;
}

}  // namespace millrace

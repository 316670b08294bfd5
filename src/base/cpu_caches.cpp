#include "base/cpu_caches.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

namespace millrace {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "32768K", "4M", "512"; 0: none of these.
int64_t parse_size(const std::string& text) {
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || size <= 0) {
    return 0;
  }
  const std::string unit(end, text.data() + text.size());
  return unit.empty() ? size : unit == "K" ? size << 10 : unit == "M" ? size << 20 : 0;
}

struct Cache {
  int level = 0;
  std::string sharers;  // "0-7,16-23"
  int64_t bytes = 0;
};

std::optional<Cache> last_level_of(const std::string& folder) {
  std::optional<Cache> last;
  for (int index = 0;; ++index) {
    const std::string path = folder + "/index" + std::to_string(index) + "/";
    const std::string level_text = first_line(path + "level");
    int level = 0;
    std::from_chars(level_text.data(), level_text.data() + level_text.size(), level);
    if (level <= 0) {
      return last;
    }
    const int64_t bytes = parse_size(first_line(path + "size"));
    const bool holds_data = first_line(path + "type") != "Instruction";
    if (holds_data && bytes > 0 && (!last || level > last->level)) {
      last = Cache{level, first_line(path + "shared_cpu_list"), bytes};
    }
  }
}

}  // namespace

std::vector<int64_t> last_level_caches(std::span<const int> cpus, const std::string& root) {
  std::map<std::string, int64_t> by_sharers;
  for (const int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    if (const auto cache = last_level_of(root + "/sys/devices/system/cpu/" + name + "/cache")) {
      by_sharers[cache->sharers.empty() ? name : cache->sharers] = cache->bytes;
    }
  }
  std::vector<int64_t> bytes;
  for (const auto& [sharers, size] : by_sharers) {
    bytes.push_back(size);
  }
  std::ranges::sort(bytes, std::greater());
  return bytes;
}

int64_t cache_bytes_of_threads(std::span<const int64_t> caches, int n_threads) {
  int64_t bytes = 0;
  for (const int64_t cache :
       caches.first(std::min(caches.size(), size_t(std::max(n_threads, 0))))) {
    bytes += cache;
  }
  return bytes;
}

}  // namespace millrace

#pragma once
// The caches before memory, as the kernel describes them. Any thread.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace {

// Bytes of each cache of the last level that these processors have, the largest first; one that
// several of them share stands once. Empty: the kernel does not say. root stands before
// /sys/devices/system/cpu: a test gives its own tree.
std::vector<int64_t> last_level_caches(std::span<const int> cpus, const std::string& root = "");

// Of all that so many threads can have between them, one each at least; 0: unknown.
int64_t cache_bytes_of_threads(std::span<const int64_t> caches, int n_threads);

}  // namespace millrace

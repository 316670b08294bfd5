#include "base/cpu_caches.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace millrace {
namespace {

namespace fs = std::filesystem;

class CpuCachesTest : public testing::Test {
 protected:
  ~CpuCachesTest() override { fs::remove_all(root_); }

  void add(int cpu,
           int index,
           const char* level,
           const char* type,
           const char* size,
           const char* sharers) {
    const fs::path folder = root_ / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) /
                            "cache" / ("index" + std::to_string(index));
    fs::create_directories(folder);
    std::ofstream(folder / "level") << level << "\n";
    std::ofstream(folder / "type") << type << "\n";
    std::ofstream(folder / "size") << size << "\n";
    std::ofstream(folder / "shared_cpu_list") << sharers << "\n";
  }

  const fs::path root_ =
      fs::path(testing::TempDir()) / ("millrace_caches_" + std::to_string(getpid()));
};

using Sizes = std::vector<int64_t>;

TEST_F(CpuCachesTest, a_shared_cache_of_the_last_level_counts_once) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    add(cpu, 0, "1", "Data", "32K", std::to_string(cpu).c_str());
    add(cpu, 1, "1", "Instruction", "64M", std::to_string(cpu).c_str());
    add(cpu, 2, "2", "Unified", "512K", std::to_string(cpu).c_str());
    add(cpu, 3, "3", "Unified", cpu < 2 ? "16384K" : "96M", cpu < 2 ? "0-1" : "2-3");
  }
  EXPECT_EQ(last_level_caches(std::array{0, 1, 2, 3}, root_), (Sizes{96 << 20, 16 << 20}));
  EXPECT_EQ(last_level_caches(std::array{1}, root_), Sizes{16 << 20});
}

TEST_F(CpuCachesTest, what_the_kernel_does_not_say_is_unknown) {
  EXPECT_EQ(last_level_caches(std::array{0, 1}, root_), Sizes{});
  add(0, 0, "1", "Instruction", "32K", "0");
  EXPECT_EQ(last_level_caches(std::array{0}, root_), Sizes{});
  for (const char* size : {"", "big", "0K", "-5K", "3G"}) {
    add(0, 1, "2", "Unified", size, "0");
    EXPECT_EQ(last_level_caches(std::array{0}, root_), Sizes{}) << size;
  }
  add(0, 1, "2", "Unified", "1024K", "");
  add(1, 0, "2", "Unified", "1024K", "");
  EXPECT_EQ(last_level_caches(std::array{0, 1}, root_), (Sizes{1 << 20, 1 << 20}));
}

TEST_F(CpuCachesTest, threads_have_a_cache_each_at_most) {
  const Sizes caches{8, 4, 2};
  EXPECT_EQ(cache_bytes_of_threads(caches, 1), 8);
  EXPECT_EQ(cache_bytes_of_threads(caches, 2), 12);
  EXPECT_EQ(cache_bytes_of_threads(caches, 64), 14);
  EXPECT_EQ(cache_bytes_of_threads({}, 4), 0);
}

}  // namespace
}  // namespace millrace

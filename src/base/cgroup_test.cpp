// Limits read from made-up trees of /proc and /sys, laid out as kernels and container runtimes do.

#include "base/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace millrace {
namespace {

constexpr const char* kV2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

class Cgroup : public testing::Test {
 protected:
  Cgroup()
      : root_((std::filesystem::temp_directory_path() /
               ("millrace_cgroup_" + std::to_string(getpid())))
                  .string()) {}
  ~Cgroup() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void use(const std::string& mounts, const std::string& groups) {
    write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/root rw\n" + mounts);
    write("/proc/self/cgroup", groups);
  }
  CgroupLimits read() const { return read_cgroup_limits(root_); }

  const std::string root_;
};

TEST_F(Cgroup, without_groups_nothing_is_limited) {
  EXPECT_EQ(read().cpus, 0);
  EXPECT_FALSE(read().free_memory_bytes);
  use(kV2Mount, "0::/user.slice\n");
  EXPECT_EQ(read().cpus, 0);
  EXPECT_FALSE(read().free_memory_bytes);
}

TEST_F(Cgroup, the_own_group_of_version_2_limits) {
  use(kV2Mount, "0::/system.slice/millrace.service\n");
  const std::string own = "/sys/fs/cgroup/system.slice/millrace.service";
  write(own + "/cpu.max", "250000 100000\n");
  write(own + "/memory.max", "1000000\n");
  write(own + "/memory.current", "400000\n");
  EXPECT_EQ(read().cpus, 2.5);
  EXPECT_EQ(read().free_memory_bytes, 600'000);
}

TEST_F(Cgroup, the_tightest_ancestor_of_version_2_counts) {
  use(kV2Mount, "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
  write("/sys/fs/cgroup/a/memory.max", "5000\n");
  write("/sys/fs/cgroup/a/memory.current", "4000\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  write("/sys/fs/cgroup/a/b/memory.current", "4000\n");
  write("/sys/fs/cgroup/a/b/c/memory.max", "9000\n");
  write("/sys/fs/cgroup/a/b/c/memory.current", "3000\n");
  EXPECT_EQ(read().cpus, 1.5);
  EXPECT_EQ(read().free_memory_bytes, 1'000);
  write("/sys/fs/cgroup/a/b/memory.high", "4100\n");
  EXPECT_EQ(read().free_memory_bytes, 100);
}

TEST_F(Cgroup, cached_files_count_as_free) {
  use(kV2Mount, "0::/a\n");
  write("/sys/fs/cgroup/a/memory.max", "10000\n");
  write("/sys/fs/cgroup/a/memory.current", "9500\n");
  write("/sys/fs/cgroup/a/memory.stat",
        "anon 500\nfile 9000\nactive_file 1000\ninactive_file 8000\n");
  EXPECT_EQ(read().free_memory_bytes, 8'500);
  write("/sys/fs/cgroup/a/memory.stat", "inactive_file 99999\n");  // read a moment later
  EXPECT_EQ(read().free_memory_bytes, 10'000);
}

TEST_F(Cgroup, version_1_has_a_tree_for_each_controller) {
  use("32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
      "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
      "5:cpuset:/wrong\n4:memory:/jobs/one\n2:cpuacct,cpu:/right/deep\n");
  // The cpuset controller's path must not be taken for the cpu controller's.
  write("/sys/fs/cgroup/cpu,cpuacct/wrong/cpu.cfs_quota_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/wrong/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/right/cpu.cfs_quota_us", "300000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/right/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/right/deep/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/right/deep/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "777\n");
  write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "8000\n");
  write("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "6000\n");
  write("/sys/fs/cgroup/memory/jobs/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  write("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "18446744073709551615\n");
  write("/sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes", "5000\n");
  EXPECT_EQ(read().cpus, 3);
  EXPECT_EQ(read().free_memory_bytes, 2'500);
}

// Docker without a cgroup namespace: the path is the host's, the mount shows the container's part.
TEST_F(Cgroup, a_container_sees_its_own_part_of_the_tree) {
  use("35 31 0:32 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
      "4:memory:/docker/f00/child\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  write("/sys/fs/cgroup/memory/child/memory.limit_in_bytes", "6000\n");
  write("/sys/fs/cgroup/memory/child/memory.usage_in_bytes", "900\n");
  EXPECT_EQ(read().free_memory_bytes, 5'100);
  use("35 31 0:32 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
      "4:memory:/docker/f00d\n");
  EXPECT_EQ(read().free_memory_bytes, 6'000);
}

TEST_F(Cgroup, a_group_outside_the_namespace_leaves_the_mount_point) {
  use(kV2Mount, "0::/../elsewhere\n");
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  write("/sys/fs/elsewhere/cpu.max", "100000 100000\n");
  EXPECT_EQ(read().cpus, 2);
}

TEST_F(Cgroup, broken_files_limit_nothing) {
  use("short line\n" + std::string(kV2Mount), "garbage\n0::/a\n");
  write("/sys/fs/cgroup/a/cpu.max", "\n");
  write("/sys/fs/cgroup/a/memory.max", "many\n");
  write("/sys/fs/cgroup/a/memory.current", "5\n");
  EXPECT_EQ(read().cpus, 0);
  EXPECT_FALSE(read().free_memory_bytes);
}

}  // namespace
}  // namespace millrace

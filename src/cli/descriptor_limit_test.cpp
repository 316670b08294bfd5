#include "cli/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace millrace {
namespace {

TEST(DescriptorLimit, the_soft_limit_becomes_the_hard_one) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lowered{std::min<rlim_t>(64, before.rlim_max), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
  const int64_t allowed = raise_descriptor_limit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(allowed, static_cast<int64_t>(std::min<rlim_t>(before.rlim_max, INT64_MAX)));
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace millrace

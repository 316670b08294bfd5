#include "cli/descriptor_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/http_client.h"

namespace millrace {
namespace {

class DescriptorLimit : public testing::Test {
 protected:
  DescriptorLimit() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~DescriptorLimit() override { ::setrlimit(RLIMIT_NOFILE, &before_); }

  void lower_to(rlim_t limit) {
    const rlimit lowered{std::min(limit, before_.rlim_max), before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  }
  static rlim_t limit() {
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    return now.rlim_cur;
  }

  rlimit before_{};
};

TEST_F(DescriptorLimit, the_soft_limit_becomes_the_hard_one) {
  lower_to(64);
  const int64_t allowed = raise_descriptor_limit();
  EXPECT_EQ(limit(), before_.rlim_max);
  EXPECT_EQ(allowed, static_cast<int64_t>(std::min<rlim_t>(before_.rlim_max, INT64_MAX)));
}

TEST_F(DescriptorLimit, is_raised_by_load_which_may_have_thousands_of_connections) {
  lower_to(64);
  const std::vector<std::string> arguments = {"http://127.0.0.1:1"};  // nobody listens there
  EXPECT_FALSE(load_command(arguments));
  EXPECT_EQ(limit(), before_.rlim_max);
}

TEST_F(DescriptorLimit, is_what_a_client_without_descriptors_names_rather_than_the_server) {
  const auto url = parse_url("http://127.0.0.1:1");
  ASSERT_TRUE(url);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  ::close(next);
  lower_to(static_cast<rlim_t>(next));
  const auto status = exchange(*url, {}, [](std::string_view) {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "cannot connect to 127.0.0.1:1: Too many open files");
}

}  // namespace
}  // namespace millrace

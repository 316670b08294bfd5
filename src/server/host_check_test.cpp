#include "server/host_check.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(HostCheck, names_are_read_without_port_case_and_final_dot) {
  EXPECT_EQ(host_name("Example.COM.:8080"), "example.com");
  EXPECT_EQ(host_name("localhost"), "localhost");
  EXPECT_EQ(host_name("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(host_name("[::1]:80"), "::1");
  EXPECT_EQ(host_name("[::1"), "[::1");
  EXPECT_EQ(host_name(""), "");
}

TEST(HostCheck, only_names_that_nobody_else_can_own_are_local) {
  for (const char* name :
       {"localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "192.168.1.5"}) {
    EXPECT_TRUE(is_local_name(name)) << name;
  }
  for (const char* name : {"",
                           "evil.example",
                           "localhost.evil.example",
                           "127.0.0.1.evil.example",
                           "127.1",
                           "0x7f000001",
                           "xlocalhost"}) {
    EXPECT_FALSE(is_local_name(name)) << name;
  }
}

TEST(HostCheck, origins_are_a_scheme_and_a_host_and_nothing_behind) {
  for (const char* origin :
       {"https://app.example", "http://localhost:3000", "http://[::1]:8080", "app://obsidian.md"}) {
    EXPECT_TRUE(is_origin(origin)) << origin;
  }
  for (const char* text : {"",
                           "foo",
                           "app.example",
                           "https://",
                           "://a",
                           "http://a.b/x",
                           "http://a b",
                           "HTTPS://a",
                           "https://user@a"}) {
    EXPECT_FALSE(is_origin(text)) << text;
  }
}

TEST(HostCheck, loopback_addresses) {
  EXPECT_TRUE(is_loopback_address("127.0.0.1"));
  EXPECT_TRUE(is_loopback_address("127.1.2.3"));
  EXPECT_TRUE(is_loopback_address("::1"));
  EXPECT_FALSE(is_loopback_address("0.0.0.0"));
  EXPECT_FALSE(is_loopback_address("::"));
  EXPECT_FALSE(is_loopback_address("1.2.3.127"));
}

}  // namespace
}  // namespace millrace

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
  for (const char* address : {"127.0.0.1",
                              "127.1.2.3",
                              "::1",
                              "0:0:0:0:0:0:0:1",
                              "0000::0001",
                              "::0.0.0.1",
                              "::1%lo",
                              "::ffff:127.0.0.1",
                              "::FFFF:7f01:203"}) {
    EXPECT_TRUE(is_loopback_address(address)) << address;
  }
  for (const char* address : {"",
                              "0.0.0.0",
                              "1.2.3.127",
                              "::",
                              "::2",
                              "1::1",
                              "::ffff:0.0.0.0",
                              "::ffff:128.0.0.1",
                              "::127.0.0.1",
                              "localhost"}) {
    EXPECT_FALSE(is_loopback_address(address)) << address;
  }
}

}  // namespace
}  // namespace millrace

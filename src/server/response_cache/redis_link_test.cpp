#include "server/response_cache/redis_link.h"

#include <gtest/gtest.h>

#include "server/response_cache/redis_testing.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

TEST(RedisUrl, names_host_port_and_database) {
  const auto url = parse_redis_url("redis://cache.example:7000/2");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "cache.example");
  EXPECT_EQ(url->port, 7000);
  EXPECT_EQ(url->database, 2);
  EXPECT_EQ(parse_redis_url("redis://localhost")->name(), "redis://localhost:6379/0");
  EXPECT_EQ(parse_redis_url("redis://localhost/")->name(), "redis://localhost:6379/0");
  EXPECT_EQ(parse_redis_url("redis://[::1]:7/1")->name(), "redis://[::1]:7/1");
  EXPECT_EQ(parse_redis_url("redis://[::1]")->host, "::1");
}

TEST(RedisUrl, that_is_something_else_is_refused) {
  for (const char* url : {"",
                          "localhost:6379",
                          "http://localhost",
                          "redis://",
                          "redis://:6379",
                          "redis://host:",
                          "redis://host:0",
                          "redis://host:65536",
                          "redis://host:6379x",
                          "redis://host/a",
                          "redis://host/-1",
                          "redis://host/1/2",
                          "redis://[::1",
                          "redis://[::1]x"}) {
    EXPECT_FALSE(parse_redis_url(url)) << url;
  }
  const auto with_tls = parse_redis_url("rediss://host");
  EXPECT_NE(with_tls.error().message.find("TLS"), std::string::npos);
  const auto with_password = parse_redis_url("redis://:secret@host");
  EXPECT_NE(with_password.error().message.find("--redis-password-file"), std::string::npos);
  EXPECT_EQ(with_password.error().message.find("secret"), std::string::npos);
}

TEST(RedisLink, to_nobody_says_so) {
  RedisLink link({.host = "127.0.0.1", .port = 1});
  const auto opened = link.open(milliseconds(1000));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "redis://127.0.0.1:1/0: cannot connect (Connection refused)");
  EXPECT_FALSE(link.is_open());
  EXPECT_FALSE(link.exchange({{"PING"}}, milliseconds(1000)));
}

class RedisLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis()) {
      GTEST_SKIP() << "needs redis-server (scripts/install-deps --test)";
    }
  }
};

TEST_F(RedisLinkTest, sends_many_commands_at_once_and_keeps_any_byte) {
  const RedisServer server;
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(milliseconds(5000)));
  std::string value(3 << 20, 'v');
  for (int i = 0; i < 256; ++i) {
    value[static_cast<size_t>(i) * 1000] = static_cast<char>(i);
  }
  const auto replies = link.exchange({{"SET", "key", value},
                                      {"GETRANGE", "key", "0", "9999999"},
                                      {"GETRANGE", "none", "0", "9"},
                                      {"NONSENSE"}},
                                     milliseconds(20'000));
  ASSERT_TRUE(replies) << replies.error().message;
  ASSERT_EQ(replies->size(), 4u);
  EXPECT_EQ((*replies)[0].text, "OK");
  EXPECT_TRUE((*replies)[1].text == value);
  EXPECT_EQ((*replies)[2].text, "");
  EXPECT_FALSE((*replies)[2].is_error);
  EXPECT_TRUE((*replies)[3].is_error);
  EXPECT_TRUE(link.is_open());
}

TEST_F(RedisLinkTest, that_gets_no_answer_in_time_is_closed) {
  RedisServer server;
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(milliseconds(5000)));
  server.freeze();
  const auto late = link.exchange({{"PING"}}, milliseconds(20));
  server.thaw();
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("no answer within 20 ms"), std::string::npos);
  EXPECT_FALSE(link.is_open());
}

TEST_F(RedisLinkTest, whose_server_dies_is_closed) {
  RedisServer server;
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(milliseconds(5000)));
  server.kill();
  EXPECT_FALSE(link.exchange({{"PING"}}, milliseconds(5000)));
  EXPECT_FALSE(link.is_open());
}

TEST_F(RedisLinkTest, needs_the_right_password_where_there_is_one) {
  const RedisServer server("secret word");
  RedisLink right(server.address());
  EXPECT_TRUE(right.open(milliseconds(5000)));
  for (const char* password : {"", "wrong"}) {
    RedisAddress address = server.address();
    address.password = password;
    RedisLink wrong(address);
    const auto opened = wrong.open(milliseconds(5000));
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message.find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace millrace

#include "server/response_cache/redis_link.h"

#include <gtest/gtest.h>

#include <atomic>

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
  EXPECT_EQ(parse_redis_url("redis://[fe80::1%eth0]")->host, "fe80::1%eth0");
  EXPECT_EQ(parse_redis_url("redis://my_redis-1.local")->host, "my_redis-1.local");
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
                          "redis://127.0.0.1?x=1",
                          "redis://127.0.0.1#x",
                          "redis://a b",
                          "redis://a\nb",
                          "redis://h\xc3\xb6st",
                          "redis://[::1?x=1]",
                          "redis://[]",
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
  const auto opened = link.open(patience());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "redis://127.0.0.1:1/0: cannot connect (Connection refused)");
  EXPECT_FALSE(link.is_open());
  EXPECT_FALSE(link.exchange({{"PING"}}, patience()));
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
  ASSERT_TRUE(link.open(patience()));
  std::string value(3 << 20, 'v');
  for (int i = 0; i < 256; ++i) {
    value[static_cast<size_t>(i) * 1000] = static_cast<char>(i);
  }
  const auto replies = link.exchange({{"SET", "key", value},
                                      {"GETRANGE", "key", "0", "9999999"},
                                      {"GETRANGE", "none", "0", "9"},
                                      {"NONSENSE"}},
                                     patience());
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
  ASSERT_TRUE(link.open(patience()));
  server.freeze();
  const auto late =
      link.exchange({{"PING"}}, {.silence = milliseconds(20), .total = milliseconds(60'000)});
  server.thaw();
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("no answer within 20 ms"), std::string::npos);
  EXPECT_FALSE(link.is_open());
}

TEST_F(RedisLinkTest, waits_as_long_as_bytes_come) {
  FakeRedis server([](int connection) {
    for (const char byte : std::string_view("$12\r\nhello world!\r\n")) {
      FakeRedis::send(connection, {&byte, 1});
      std::this_thread::sleep_for(milliseconds(80));  // 19 of them are more than the silence
    }
  });
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(patience()));
  const auto replies = link.exchange(
      {{"GET", "key"}}, {.silence = milliseconds(1000), .total = milliseconds(60'000)});
  ASSERT_TRUE(replies) << replies.error().message;
  EXPECT_EQ(replies->front().text, "hello world!");
}

// All of the silence passes before each look.
TEST_F(RedisLinkTest, finds_the_bytes_that_came_while_it_was_kept_from_looking) {
  std::atomic<bool> has_sent{false};
  FakeRedis server([&](int connection) {
    FakeRedis::send(connection, "+PONG\r\n");
    has_sent = true;
  });
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(patience()));
  RedisPatience kept{.silence = milliseconds(1), .total = milliseconds(60'000)};
  int n_looks = 0;
  kept.gives_up = [&] {
    std::this_thread::sleep_for(kept.silence * 2);
    return ++n_looks > 1 && !wait_until([&] { return has_sent.load(); });  // after the command
  };
  const auto replies = link.exchange({{"PING"}}, kept);
  ASSERT_TRUE(replies) << replies.error().message;
  EXPECT_EQ(replies->front().text, "PONG");
}

TEST_F(RedisLinkTest, does_not_wait_for_ever_though_bytes_come) {
  std::atomic<bool> is_over{false};
  FakeRedis server([&](int connection) {
    FakeRedis::send(connection, "$1000000\r\n");
    while (!is_over && FakeRedis::send(connection, "x")) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(patience()));
  const auto replies = link.exchange({{"GET", "key"}},
                                     {.silence = milliseconds(60'000), .total = milliseconds(100)});
  is_over = true;
  ASSERT_FALSE(replies);
  EXPECT_NE(replies.error().message.find("no whole answer within 100 ms"), std::string::npos);
  EXPECT_FALSE(link.is_open());
}

TEST_F(RedisLinkTest, tells_the_replies_that_came_before_the_server_fell_silent) {
  FakeRedis server([](int connection) { FakeRedis::send(connection, "$1\r\na\r\n$9\r\nb"); });
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(patience()));
  std::vector<std::string> told;
  const auto done =
      link.exchange({{"GET", "a"}, {"GET", "b"}},
                    {.silence = milliseconds(500), .total = milliseconds(60'000)},
                    [&](size_t, const RedisReply& reply) { told.push_back(reply.text); });
  EXPECT_FALSE(done);
  EXPECT_EQ(told, std::vector<std::string>{"a"});
}

TEST_F(RedisLinkTest, takes_no_array_of_any_size_or_depth) {
  for (const char* reply : {"*1000000000\r\n", "*0\r\n", "*1\r\n$1\r\na\r\n", "*1\r\n*2\r\n"}) {
    FakeRedis server([&](int connection) { FakeRedis::send(connection, reply); });
    RedisLink link(server.address());
    ASSERT_TRUE(link.open(patience()));
    const auto replies = link.exchange({{"GET", "key"}}, patience());
    ASSERT_FALSE(replies) << reply;
    EXPECT_NE(replies.error().message.find("an array"), std::string::npos)
        << replies.error().message;
    EXPECT_FALSE(link.is_open());
  }
}

TEST_F(RedisLinkTest, gives_up_when_told_to) {
  RedisServer server;
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(patience()));
  server.freeze();
  int n_asked = 0;
  RedisPatience endless{.silence = std::chrono::hours(1), .total = std::chrono::hours(1)};
  endless.gives_up = [&] { return ++n_asked > 3; };
  const auto late = link.exchange({{"PING"}}, endless);
  server.thaw();
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("no longer waited for"), std::string::npos);
  EXPECT_FALSE(link.open(endless));
}

TEST_F(RedisLinkTest, makes_errors_fit_for_a_log) {
  FakeRedis server([](int connection) {
    FakeRedis::send(connection, "-ERR \x1b[31m\r\a\n" + std::string(1000, 'e') + "\r\n");
  });
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(patience()));
  const auto replies = link.exchange({{"GET", "key"}}, patience());
  ASSERT_TRUE(replies);
  EXPECT_TRUE(replies->front().is_error);
  EXPECT_TRUE(replies->front().text.starts_with("ERR ?[31m???e"));
  EXPECT_EQ(replies->front().text.size(), 200u);
}

TEST_F(RedisLinkTest, whose_server_dies_is_closed) {
  RedisServer server;
  RedisLink link(server.address());
  ASSERT_TRUE(link.open(patience()));
  server.kill();
  EXPECT_FALSE(link.exchange({{"PING"}}, patience()));
  EXPECT_FALSE(link.is_open());
}

TEST_F(RedisLinkTest, needs_the_right_password_where_there_is_one) {
  const RedisServer server("secret word");
  RedisLink right(server.address());
  EXPECT_TRUE(right.open(patience()));
  for (const char* password : {"", "wrong"}) {
    RedisAddress address = server.address();
    address.password = password;
    RedisLink wrong(address);
    const auto opened = wrong.open(patience());
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message.find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace millrace

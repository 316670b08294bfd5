#include "server/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/http_server_testing.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

TEST_F(HttpServerTest, a_reply_that_is_decided_later_is_sent_as_what_it_turns_out_to_be) {
  start();
  RawClient client(server_->port());
  for (int i = 0; i < 2; ++i) {
    client.received.clear();
    ASSERT_TRUE(client.send(get("/decided/ticks")));
    ASSERT_TRUE(client.read_until("0\r\n\r\n"));
    EXPECT_TRUE(client.has_in_order({"200 OK", "Transfer-Encoding: chunked", "<0>", "<2>"}));
    client.received.clear();
    ASSERT_TRUE(client.send(post("/decided/whole", "abc")));
    ASSERT_TRUE(client.read_until("{POST /whole 3}abc"));
    EXPECT_TRUE(client.has("Content-Length"));
  }
}

TEST_F(HttpServerTest,
       a_reply_that_fails_before_it_begins_is_a_500_and_closes_only_its_connection) {
  start();
  for (const char* path : {"/decided/throw", "/break", "/decided/break"}) {
    RawClient client(server_->port(), get(path));
    EXPECT_TRUE(client.read_to_end()) << path;
    EXPECT_EQ(client.status(), 500) << path;
    EXPECT_TRUE(client.has(fmt::format("Refused: GET {}\r\n", path))) << client.received;
    EXPECT_TRUE(client.has("[internal error]")) << client.received;
  }
  RawClient stream(server_->port(), get("/break/stream"));  // its status is out already
  EXPECT_TRUE(stream.read_to_end());
  EXPECT_EQ(stream.status(), 200);
  EXPECT_TRUE(stream.received.ends_with("\r\n\r\n")) << stream.received;
  RawClient other(server_->port(), get("/a"));
  EXPECT_TRUE(other.read_until("{GET /a 0}"));
}

TEST_F(HttpServerTest, answers_and_keeps_the_connection) {
  start();
  RawClient client = connect(get("/a?x=1"));
  ASSERT_TRUE(client.read_until("{GET /a 0}"));
  EXPECT_TRUE(client.has("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(client.has("Content-Length: 10\r\n"));
  ASSERT_TRUE(client.send(post("/b", "abc")));
  EXPECT_TRUE(client.read_until("{POST /b 3}abc"));
}

TEST_F(HttpServerTest, pipelined_requests_are_answered_in_order) {
  start();
  // A DELETE without a body must not eat what follows it.
  RawClient client = connect("DELETE /x HTTP/1.1\r\nHost: h\r\n\r\n" + get("/late") +
                             post("/y", "hi") + get("/z", "Connection: close\r\n"));
  ASSERT_TRUE(client.read_to_end());
  EXPECT_TRUE(
      client.has_in_order({"{DELETE /x 0}", "<0><1><2><3><4>", "{POST /y 2}hi", "{GET /z 0}"}))
      << client.received;
}

TEST_F(HttpServerTest, request_sent_while_a_stream_runs_is_answered_after_it) {
  start();
  n_ticks_ = 50;
  RawClient client = connect(get("/ticks"));
  ASSERT_TRUE(client.read_until("<1>"));
  ASSERT_TRUE(client.send(get("/after")));
  ASSERT_TRUE(client.read_until("{GET /after 0}"));
  EXPECT_TRUE(client.has_in_order({"<49>", "\r\n0\r\n\r\n", "{GET /after 0}"}));
  EXPECT_EQ(n_unfinished_.load(), 0);
}

TEST_F(HttpServerTest, refused_requests_with_small_bodies_keep_the_connection) {
  start();
  expect_answer(post("/refused", "body") + get("/next"), 401, "{GET /next 0}");
}

TEST_F(HttpServerTest, handler_exceptions_become_500_that_knows_its_request) {
  HttpServerOptions options;
  options.large_body_bytes = 1000;  // beyond it a helper thread runs the handler
  start(options);
  expect_answer(get("/throw") + get("/next"), 500, "{GET /next 0}");
  expect_answer(get("/throw"), 500, "Refused: GET /throw\r\n");
  expect_answer(post("/throw", std::string(2000, 'x')), 500, "Refused: POST /throw\r\n");
}

TEST_F(HttpServerTest, head_has_the_headers_of_get_and_no_body) {
  start();
  RawClient client = connect("HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(client.read_to_end());
  EXPECT_TRUE(client.has("Content-Length: 11\r\n"));
  EXPECT_TRUE(client.received.ends_with("\r\n\r\n"));
}

TEST_F(HttpServerTest, http_1_0_streams_until_the_connection_closes) {
  start();
  RawClient client = connect("GET /ticks HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(client.read_to_end());
  EXPECT_FALSE(client.has("chunked"));
  EXPECT_TRUE(client.received.ends_with("\r\n\r\n<0><1><2><3><4>"));
}

TEST_F(HttpServerTest, many_streams_at_once_are_each_whole) {
  start();
  n_ticks_ = 20;
  std::vector<std::thread> clients;
  std::atomic<int> n_whole{0};
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      RawClient client = connect(get("/ticks", "Connection: close\r\n"));
      client.read_to_end();
      size_t position = 0;
      for (int tick = 0; tick < 20 && position != std::string::npos; ++tick) {
        position = client.received.find(fmt::format("<{}>", tick), position);
      }
      n_whole += position != std::string::npos && client.received.ends_with("0\r\n\r\n");
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(n_whole.load(), 16);
}

TEST_F(HttpServerTest, a_full_server_closes_idle_connections_to_make_room) {
  HttpServerOptions options;
  options.max_connections = 1;
  options.crowded_idle_timeout = milliseconds(0);
  start(options);
  RawClient idle = connect(get("/a"));
  ASSERT_TRUE(idle.read_until("{GET /a 0}"));
  expect_end("", 503);
  EXPECT_TRUE(idle.read_to_end());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  expect_answer(get("/a"), 200, "{GET /a 0}");
}

TEST_F(HttpServerTest, connections_above_the_limit_get_503) {
  HttpServerOptions options;
  options.max_connections = 2;
  start(options);
  RawClient first = connect();
  RawClient second = connect();
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 2; }));
  expect_end("", 503);
  first.close();
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
  expect_answer(get("/a"), 200, "{GET /a 0}");
}

TEST_F(HttpServerTest, drain_closes_idle_connections_answers_new_ones_and_finishes_running_ones) {
  start();
  n_ticks_ = 100;
  RawClient idle = connect(get("/a"));
  ASSERT_TRUE(idle.read_until("\r\n\r\n"));
  RawClient fresh = connect();
  RawClient busy = connect(get("/ticks"));
  ASSERT_TRUE(busy.read_until("<2>"));
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 3; }));
  EXPECT_FALSE(server_->wait_idle(milliseconds(1)));
  server_->begin_drain();
  EXPECT_TRUE(idle.read_to_end());
  // Both had asked for nothing yet; what they ask for is answered.
  RawClient late = connect();
  for (RawClient* client : {&fresh, &late}) {
    std::this_thread::sleep_for(milliseconds(20));
    ASSERT_TRUE(client->send(get("/a")));
    EXPECT_TRUE(client->read_to_end());
    EXPECT_TRUE(client->has_in_order({"HTTP/1.1 200", "Connection: close"}));
  }
  EXPECT_TRUE(server_->wait_idle(milliseconds(10'000)));
  EXPECT_TRUE(busy.read_until("<99>\r\n0\r\n\r\n"));
}

TEST_F(HttpServerTest, destroying_the_server_cuts_running_requests) {
  start();
  RawClient client = long_request(get("/ticks"));
  ASSERT_TRUE(client.read_until("<2>"));
  server_.reset();
  EXPECT_EQ(n_unfinished_.load(), 1);
  EXPECT_TRUE(client.read_to_end());
}

TEST_F(HttpServerTest, a_taken_port_is_an_error_that_says_what_to_do) {
  start();
  HttpServerOptions options;
  options.port = server_->port();
  auto second = HttpServer::start(options, {});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("--port"), std::string::npos);
  options.host = "no such address";
  EXPECT_FALSE(HttpServer::start(options, {}));
}

}  // namespace
}  // namespace millrace

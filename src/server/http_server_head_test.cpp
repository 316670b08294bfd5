// What requests look like: lines, headers, hosts, and what is malformed or slow.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>

#include "server/http_server_testing.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

TEST_F(HttpServerTest, requests_arriving_byte_by_byte_are_read) {
  start();
  RawClient client = connect();
  for (const char c : post("/d", "slow")) {
    ASSERT_TRUE(client.send({&c, 1}));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(client.read_until("{POST /d 4}slow")) << client.received;
}

TEST_F(HttpServerTest, headers_are_limited_as_a_whole_however_they_arrive) {
  HttpServerOptions options;
  options.max_header_bytes = 4000;
  start(options);
  RawClient client = connect("GET /a HTTP/1.1\r\nHost: h\r\n");
  for (int i = 0; i < 100; ++i) {  // each far below the limit
    client.send(fmt::format("X-{}: {}\r\n", i, std::string(40, 'v')));
    std::this_thread::sleep_for(milliseconds(1));
  }
  client.send("\r\n");
  EXPECT_TRUE(client.read_until("headers are larger than 4000 bytes")) << client.received;
  EXPECT_EQ(client.status(), 431);
}

TEST_F(HttpServerTest, the_frame_of_chunks_is_limited_too) {
  HttpServerOptions options;
  options.max_header_bytes = 4000;
  start(options);
  for (const char* frame : {"1;x=", "1\r\na\r\n0\r\nTrailer: "}) {
    RawClient client = connect(post("/c", frame, kChunked));
    for (int i = 0; i < 10; ++i) {
      client.send(std::string(1000, 'y'));
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_TRUE(client.read_until("too long")) << frame;
    EXPECT_EQ(client.status(), 400);
  }
}

TEST_F(HttpServerTest, http_1_1_needs_one_host_and_http_1_0_none) {
  start();
  for (const char* headers : {"", "Host: a\r\nHost: b\r\n", "Host: a/b\r\n", "Host: u@a\r\n"}) {
    expect_end(fmt::format("GET /a HTTP/1.1\r\n{}\r\n", headers), 400);
  }
  expect_answer("GET /a HTTP/1.0\r\n\r\n", 200, "{GET /a 0}");
}

TEST_F(HttpServerTest, whole_urls_are_routed_by_their_path_and_name_the_host) {
  start();
  for (const char* target : {"http://other:80/a", "HTTP://other:80/a?q=http://x", "/a"}) {
    expect_answer(get(target), 200, "{GET /a 0}");
  }
  expect_answer(get("http://other"), 200, "{GET / 0}");
  expect_answer(get("http://other:80/host"), 200, "[other:80]");
  expect_answer(get("elsewhere"), 400, "must be a path");
}

TEST_F(HttpServerTest, line_ends_between_requests_are_skipped) {
  start();
  RawClient client = connect(post("/a", "hi") + "\r\n" + get("/b"));
  EXPECT_TRUE(client.read_until("{GET /b 0}")) << client.received;
  ASSERT_TRUE(client.send("\r\n"));
  ASSERT_TRUE(client.send("\r\n" + get("/c")));
  EXPECT_TRUE(client.read_until("{GET /c 0}")) << client.received;
}

TEST_F(HttpServerTest, malformed_requests_get_400_and_the_server_lives) {
  start();
  for (const std::string_view garbage :
       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls hello\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nno colon here\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n"}) {
    expect_end(garbage, 400);
  }
  expect_answer(post("/", "fffffffffffffffff\r\nx", kChunked), 400, "HTTP/1.1");
  expect_answer(post("/", "ffffffffffffffff\r\nx", kChunked), 413, "HTTP/1.1");
  expect_answer(get("/", "A: " + std::string(70'000, 'h')), 431, "headers are larger");
  expect_answer(get("/still"), 200, "{GET /still 0}");
}

TEST_F(HttpServerTest, slow_headers_and_bodies_are_cut_off) {
  HttpServerOptions options;
  options.header_timeout = milliseconds(50);
  options.body_timeout = milliseconds(50);
  options.idle_timeout = milliseconds(50);
  start(options);
  expect_end("GET / HTTP/1.1\r\nHost: h\r\nX: ", 408);
  expect_answer(post("/", "abc", "Content-Length: 10\r\n"), 408, "body took too long");
  RawClient idle = connect();
  EXPECT_TRUE(idle.read_to_end());
  EXPECT_EQ(idle.received, "");
}

}  // namespace
}  // namespace millrace

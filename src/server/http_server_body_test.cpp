// Bodies of requests: how long they are, when they are read, what they may take.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>

#include "server/http_server_testing.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

TEST_F(HttpServerTest, a_body_of_unknown_transfer_coding_ends_the_connection) {
  start();
  expect_end(post("/c", get("/smuggled"), "Transfer-Encoding: gzip\r\n"), 501);
}

TEST_F(HttpServerTest, chunked_request_bodies_are_decoded) {
  start();
  RawClient client = connect(post("/c", "3\r\nabc\r\n", kChunked));
  ASSERT_TRUE(client.send("A;ext=1\r\n0123456789\r\n0\r\n\r\n"));
  EXPECT_TRUE(client.read_until("{POST /c 13}abc0123456789"));
}

TEST_F(HttpServerTest, contradictory_lengths_are_refused_and_the_connection_closed) {
  start();
  for (const char* headers : {"Content-Length: 3\r\nContent-Length: 4\r\n",
                              "Content-Length: 3, 4\r\n",
                              "Content-Length: +3\r\n",
                              "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                              "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                              "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                              "Content-Length : 3\r\n",
                              "X: a\r\n b\nContent-Length: 3\r\n"}) {
    expect_end(post("/a", "abc" + get("/smuggled"), headers), 400);
  }
}

TEST_F(HttpServerTest, a_large_body_that_takes_long_holds_up_no_other) {
  start();
  RawClient slow = connect(post("/block", std::string(1'500'000, 'b')));
  n_blocked_.wait(0);
  expect_answer(post("/quick", std::string(100'000, 'b')), 200, "{POST /quick 100000}");
  unblock();
  EXPECT_TRUE(slow.read_until("{POST /block 1500000}"));
}

TEST_F(HttpServerTest, a_request_is_received_when_it_has_been_read_however_long_it_waits_then) {
  HttpServerOptions options;
  options.n_helper_threads = 1;
  start(options);
  const TimePoint before = Clock::now();
  RawClient slow = connect(post("/block", std::string(100'000, 'b')));
  n_blocked_.wait(0);
  RawClient waiting = connect(post("/received", std::string(100'000, 'b')));
  EXPECT_TRUE(eventually([&] { return server_->n_requests_running() == 2; }));
  const TimePoint after = Clock::now();
  unblock();
  ASSERT_TRUE(waiting.read_until("]"));
  const auto received = std::stoll(waiting.received.substr(waiting.received.find('[') + 1));
  EXPECT_GE(received, before.time_since_epoch().count());
  EXPECT_LE(received, after.time_since_epoch().count());
}

TEST_F(HttpServerTest, a_request_is_not_received_before_its_body) {
  start();
  RawClient client = connect(post("/received", "a", "Content-Length: 2\r\n"));
  std::this_thread::sleep_for(milliseconds(20));  // the headers are read by now as a rule
  const TimePoint before = Clock::now();
  ASSERT_TRUE(client.send("b"));
  ASSERT_TRUE(client.read_until("]"));
  const auto received = std::stoll(client.received.substr(client.received.find('[') + 1));
  EXPECT_GE(received, before.time_since_epoch().count());
}

TEST_F(HttpServerTest, large_bodies_beyond_the_budget_are_refused_before_they_are_read) {
  HttpServerOptions options;
  options.max_bodies_bytes = 250'000;
  start(options);
  const std::string body(100'000, 'b');
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", body.size(), body);
  RawClient slow = connect(post("/block", body));
  n_blocked_.wait(0);
  EXPECT_EQ(server_->body_bytes(), body.size());
  RawClient second = connect(post("/block", body));
  n_blocked_.wait(1);
  // One that asks first is not told to go on; a chunked one may grow to what is left.
  const std::string_view mark = "too many large bodies";
  expect_answer(post("/c", "", "Content-Length: 100000\r\nExpect: 100-continue\r\n"), 503, mark);
  expect_answer(post("/c", body), 503, mark);
  expect_answer(post("/c", chunk + chunk + "0\r\n\r\n", kChunked), 503, mark);
  expect_answer(
      post("/c", std::string(60'000, 'b')), 200, "{POST /c 60000}");  // small ones are free
  EXPECT_EQ(server_->body_bytes(), 2 * body.size());
  unblock();
  EXPECT_TRUE(slow.read_until("{POST /block 100000}"));
  EXPECT_TRUE(second.read_until("{POST /block 100000}"));
  EXPECT_TRUE(eventually([&] { return server_->body_bytes() == 0; }));
  // Alone it has room, however large; one that breaks off leaves nothing behind.
  expect_answer(post("/c", std::string(300'000, 'b')), 200, "{POST /c 300000}");
  connect(post("/c", body, "Content-Length: 200000\r\n"));
  expect_answer(post("/c", chunk + "zz\r\n", kChunked), 400, "HTTP/1.1 400");
  EXPECT_TRUE(eventually([&] { return server_->body_bytes() == 0; }));
}

TEST_F(HttpServerTest, large_bodies_that_are_promised_and_not_sent_keep_nobody_out) {
  HttpServerOptions options;
  options.max_bodies_bytes = 250'000;
  start(options);
  const std::string begun = post("/c", std::string(70'000, 'b'), "Content-Length: 240000\r\n");
  RawClient slow = connect(begun);
  ASSERT_TRUE(eventually([&] { return server_->body_bytes() == 70'000; }));
  expect_answer(post("/c", std::string(100'000, 'b')), 200, "{POST /c 100000}");
  // What has arrived counts: no more begins, and of those that have begun one breaks off.
  expect_answer(post("/c", std::string(190'000, 'b')), 503, "too many large bodies");
  RawClient other = connect(post("/c", std::string(70'000, 'b'), "Content-Length: 170000\r\n"));
  ASSERT_TRUE(eventually([&] { return server_->body_bytes() == 140'000; }));
  ASSERT_TRUE(slow.send(std::string(150'000, 'b')));
  EXPECT_TRUE(slow.read_until("too many large bodies"));
  ASSERT_TRUE(eventually([&] { return server_->body_bytes() == 70'000; }));
  ASSERT_TRUE(other.send(std::string(100'000, 'b')));
  EXPECT_TRUE(other.read_until("{POST /c 170000}"));
  EXPECT_TRUE(eventually([&] { return server_->body_bytes() == 0; }));
}

TEST_F(HttpServerTest, oversized_bodies_get_413_and_the_answer_is_readable) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  start(options);
  expect_answer(post("/f", std::string(2'000'000, 'x')), 413, "larger than 1000 bytes");
  expect_answer(post("/f", "7d0\r\n" + std::string(2000, 'x'), kChunked), 413, "larger than 1000");
}

TEST_F(HttpServerTest, expect_continue_is_answered_before_the_body) {
  start();
  const std::string_view headers = "Content-Length: 2\r\nExpect: 100-continue\r\n";
  RawClient client = connect(post("/g", "", headers));
  ASSERT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  ASSERT_TRUE(client.send("ok"));
  EXPECT_TRUE(client.read_until("{POST /g 2}ok"));
  expect_end(post("/refused", "", headers), 401);
  expect_answer(post("/g", "", "Content-Length: 2\r\nExpect: tea\r\n"), 417, "can be met");
}

}  // namespace
}  // namespace millrace

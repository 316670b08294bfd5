#include "server/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "server/raw_client.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

// Emits numbered pieces, one a tick of its own thread, until it has sent n of them.
class TickSource : public ReplySource {
 public:
  TickSource(Waker wake, int n_ticks, milliseconds period, std::atomic<int>& n_destroyed_unfinished)
      : n_ticks_(n_ticks), n_destroyed_unfinished_(n_destroyed_unfinished) {
    thread_ = std::jthread([this, wake, n_ticks, period](const std::stop_token& stop) {
      for (int i = 0; i < n_ticks && !stop.stop_requested(); ++i) {
        std::this_thread::sleep_for(period);
        n_ready_.fetch_add(1);
        wake();
      }
    });
  }
  ~TickSource() override {
    if (n_sent_ < n_ticks_) {
      n_destroyed_unfinished_.fetch_add(1);
    }
  }
  Progress pull(HttpResponse& response) override {
    for (const int n_ready = n_ready_.load(); n_sent_ < n_ready; ++n_sent_) {
      response.body += fmt::format("<{}>", n_sent_);
    }
    return n_sent_ == n_ticks_ ? Progress::kFinished : Progress::kWaiting;
  }

 private:
  const int n_ticks_;
  std::atomic<int>& n_destroyed_unfinished_;
  std::atomic<int> n_ready_{0};
  int n_sent_ = 0;
  std::jthread thread_;
};

// Always has more to say than the socket takes.
class FloodSource : public ReplySource {
 public:
  FloodSource(Waker wake, std::atomic<int64_t>& n_bytes, std::atomic<int>& n_destroyed)
      : wake_(std::move(wake)), n_bytes_(n_bytes), n_destroyed_(n_destroyed) {}
  ~FloodSource() override { n_destroyed_.fetch_add(1); }
  Progress pull(HttpResponse& response) override {
    response.body.append(100'000, 'x');
    n_bytes_.fetch_add(100'000);
    wake_();
    return Progress::kWaiting;
  }

 private:
  Waker wake_;
  std::atomic<int64_t>& n_bytes_;
  std::atomic<int>& n_destroyed_;
};

std::string get(std::string_view path, std::string_view headers = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n{}\r\n", path, headers);
}

// A Content-Length unless the headers say how long the body is.
std::string post(std::string_view path, std::string_view body, std::string_view headers = "") {
  const bool has_length =
      headers.find("Length") != headers.npos || headers.find("Transfer-Encoding") != headers.npos;
  return fmt::format("POST {} HTTP/1.1\r\nHost: h\r\n{}{}\r\n{}",
                     path,
                     headers,
                     has_length ? "" : fmt::format("Content-Length: {}\r\n", body.size()),
                     body);
}

constexpr std::string_view kChunked = "Transfer-Encoding: chunked\r\n";

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    options.port = 0;
    HttpHandler handler;
    handler.admit = [](const HttpRequest& head) -> std::optional<HttpResponse> {
      if (head.path == "/refused") {
        return HttpResponse{401, "application/json", {}, "refused"};
      }
      return std::nullopt;
    };
    handler.handle = [this](HttpRequest request, Waker wake) {
      return answer(std::move(request), std::move(wake));
    };
    handler.refuse = [](int status, std::string_view reason) {
      return HttpResponse{status, "application/json", {}, fmt::format("[{}]", reason)};
    };
    auto started = HttpServer::start(options, handler);
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
  }

  Reply answer(HttpRequest request, Waker wake) {
    Reply reply;
    if (request.path == "/ticks" || request.path == "/late") {
      reply.source = std::make_unique<TickSource>(wake, n_ticks_, milliseconds(2), n_unfinished_);
      reply.streams = request.path == "/ticks";
    } else if (request.path == "/flood") {
      reply.source = std::make_unique<FloodSource>(wake, n_flood_bytes_, n_floods_ended_);
      reply.streams = true;
    } else if (request.path.starts_with("/decided")) {
      reply.decide = decide_late(request, wake);
    } else if (request.path == "/throw") {
      throw std::runtime_error("handler broke");
    } else if (request.path == "/received") {
      reply.response.body = fmt::format("[{}]", request.received.time_since_epoch().count());
    } else if (request.path == "/host") {
      reply.response.body = fmt::format("[{}]", *request.header("host"));
    } else {
      if (request.path == "/block") {
        n_blocked_.fetch_add(1);
        n_blocked_.notify_all();
        is_blocking_.wait(true);
      }
      reply.response.body = fmt::format("{{{} {} {}}}{}",
                                        request.method,
                                        request.path,
                                        request.body.size(),
                                        request.body.size() <= 100 ? request.body : "");
    }
    return reply;
  }

  // What the path without "/decided" gives, but not at once.
  std::function<std::optional<Reply>()> decide_late(HttpRequest request, Waker wake) {
    request.path = request.path.substr(std::string_view("/decided").size());
    const auto n_calls = std::make_shared<std::atomic<int>>(0);
    return [this, request, wake, n_calls]() -> std::optional<Reply> {
      if (++*n_calls < 3) {
        std::thread([wake] {
          std::this_thread::sleep_for(milliseconds(5));
          wake();
        }).detach();
        return std::nullopt;
      }
      return answer(request, wake);
    };
  }

  void unblock() {
    is_blocking_.store(false);
    is_blocking_.notify_all();
  }

  static bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) {
        return true;
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  // A connection on which these bytes were sent; the peer may have closed it meanwhile.
  RawClient connect(std::string_view bytes = "") { return RawClient(server_->port(), bytes); }
  // The answer to these bytes has the status and contains the mark.
  void expect_answer(std::string_view bytes, int status, std::string_view mark) {
    RawClient client = connect(bytes);
    EXPECT_TRUE(client.read_until(mark)) << bytes.substr(0, 200) << client.received;
    EXPECT_EQ(client.status(), status) << bytes.substr(0, 200);
  }
  // And after it the connection is closed.
  void expect_end(std::string_view bytes, int status) {
    RawClient client = connect(bytes);
    EXPECT_TRUE(client.read_to_end()) << bytes.substr(0, 200);
    EXPECT_EQ(client.status(), status) << bytes.substr(0, 200) << client.received;
    EXPECT_FALSE(client.has("smuggled")) << bytes.substr(0, 200);
  }
  // A request that is being answered for long.
  RawClient long_request(std::string_view bytes) {
    n_ticks_ = 100'000;
    RawClient client = connect(bytes);
    EXPECT_TRUE(eventually([&] { return server_->n_requests_running() == 1; }));
    return client;
  }
  // It is cancelled and its connection closed.
  void expect_cancelled(int n_unfinished) {
    EXPECT_TRUE(eventually([&] { return n_unfinished_.load() == n_unfinished; })) << n_unfinished;
    EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  }

  int n_ticks_ = 5;
  std::atomic<bool> is_blocking_{true};
  std::atomic<int> n_blocked_{0};
  std::atomic<int> n_unfinished_{0};
  std::atomic<int64_t> n_flood_bytes_{0};
  std::atomic<int> n_floods_ended_{0};
  std::unique_ptr<HttpServer> server_;
};

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

TEST_F(HttpServerTest, a_reply_that_cannot_be_decided_closes_only_its_connection) {
  start();
  RawClient client(server_->port(), get("/decided/throw"));
  EXPECT_TRUE(client.read_to_end());
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

TEST_F(HttpServerTest, requests_arriving_byte_by_byte_are_read) {
  start();
  RawClient client = connect();
  for (const char c : post("/d", "slow")) {
    ASSERT_TRUE(client.send({&c, 1}));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(client.read_until("{POST /d 4}slow")) << client.received;
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

TEST_F(HttpServerTest, refused_requests_with_small_bodies_keep_the_connection) {
  start();
  expect_answer(post("/refused", "body") + get("/next"), 401, "{GET /next 0}");
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

TEST_F(HttpServerTest, handler_exceptions_become_500) {
  start();
  expect_answer(get("/throw") + get("/next"), 500, "{GET /next 0}");
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

TEST_F(HttpServerTest, half_closed_client_still_gets_an_answer_that_is_ready) {
  start();
  RawClient client = connect(get("/a"));
  client.shutdown_send();
  ASSERT_TRUE(client.read_to_end());
  EXPECT_TRUE(client.has("{GET /a 0}"));
}

// shutdown(SHUT_WR) only says that no more requests follow.
TEST_F(HttpServerTest, half_closed_client_gets_an_answer_that_takes_a_while) {
  start();
  n_ticks_ = 50;
  for (const char* path : {"/ticks", "/late"}) {
    RawClient client = connect(get(path));
    client.shutdown_send();
    ASSERT_TRUE(client.read_to_end());
    EXPECT_TRUE(client.has("<49>")) << client.received;
    EXPECT_TRUE(client.has(" 200 OK\r\n"));
  }
  EXPECT_EQ(n_unfinished_.load(), 0);
}

TEST_F(HttpServerTest, a_client_that_leaves_is_noticed_in_all_modes) {
  start();
  int n_gone = 0;
  for (const bool was_half_closed : {false, true}) {
    for (const char* path : {"/ticks", "/late"}) {
      RawClient client = long_request(get(path));
      if (was_half_closed) {
        client.shutdown_send();
        std::this_thread::sleep_for(milliseconds(20));
      }
      client.close();
      expect_cancelled(++n_gone);
    }
  }
}

// It cannot be asked whether it is still there.
TEST_F(HttpServerTest, a_client_of_http_1_0_that_closes_its_sending_side_has_left) {
  start();
  int n_gone = 0;
  for (const char* path : {"/ticks", "/late"}) {
    RawClient client = long_request(fmt::format("GET {} HTTP/1.0\r\n\r\n", path));
    client.shutdown_send();
    expect_cancelled(++n_gone);
  }
}

TEST_F(HttpServerTest, leaving_is_noticed_behind_any_amount_of_pipelined_bytes) {
  start();
  int n_gone = 0;
  for (const char* version : {"HTTP/1.1", "HTTP/1.0"}) {
    for (const size_t n_bytes : {100, 300'000}) {
      RawClient client = long_request(fmt::format("GET /late {}\r\nHost: h\r\n\r\n", version));
      ASSERT_TRUE(client.send(std::string(n_bytes, 'p')));
      client.close();
      expect_cancelled(++n_gone);
    }
  }
}

TEST_F(HttpServerTest, too_much_behind_a_request_is_dropped_and_its_answer_still_comes) {
  start();
  n_ticks_ = 50;
  RawClient client = connect(get("/ticks"));
  ASSERT_TRUE(client.read_until("<1>"));
  ASSERT_TRUE(client.send(std::string(300'000, 'p')));
  ASSERT_TRUE(client.read_to_end());
  EXPECT_TRUE(client.has("<49>"));
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

TEST_F(HttpServerTest, slow_reader_holds_a_bounded_amount_and_is_cut_off) {
  HttpServerOptions options;
  options.write_timeout = milliseconds(200);
  start(options);
  RawClient client = connect();
  client.set_receive_buffer(4096);
  ASSERT_TRUE(client.send(get("/flood")));
  EXPECT_TRUE(eventually([&] { return n_floods_ended_.load() == 1; }));
  EXPECT_LT(n_flood_bytes_.load(), 16 << 20);  // what the kernel's socket buffers take
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

}  // namespace
}  // namespace millrace

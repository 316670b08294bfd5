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
    if (request.path == "/ticks" || request.path == "/late") {
      Reply reply;
      reply.source = std::make_unique<TickSource>(wake, n_ticks_, milliseconds(2), n_unfinished_);
      reply.streams = request.path == "/ticks";
      return reply;
    }
    if (request.path == "/flood") {
      Reply reply;
      reply.source = std::make_unique<FloodSource>(wake, n_flood_bytes_, n_floods_ended_);
      reply.streams = true;
      return reply;
    }
    if (request.path == "/block") {
      n_blocked_.fetch_add(1);
      n_blocked_.notify_all();
      is_blocking_.wait(true);
    }
    if (request.path == "/throw") {
      throw std::runtime_error("handler broke");
    }
    Reply reply;
    if (request.path == "/host") {
      reply.response.body = fmt::format("[{}]", *request.header("host"));
      return reply;
    }
    reply.response.body =
        fmt::format("{{{} {} {}}}", request.method, request.path, request.body.size());
    if (request.body.size() <= 100) {
      reply.response.body += request.body;
    }
    return reply;
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

  int n_ticks_ = 5;
  std::atomic<bool> is_blocking_{true};
  std::atomic<int> n_blocked_{0};
  std::atomic<int> n_unfinished_{0};
  std::atomic<int64_t> n_flood_bytes_{0};
  std::atomic<int> n_floods_ended_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, answers_and_keeps_the_connection) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /a?x=1 HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(client.read_until("{GET /a 0}"));
  EXPECT_NE(client.received.find("HTTP/1.1 200 OK\r\n"), std::string::npos);
  EXPECT_NE(client.received.find("Content-Length: 10\r\n"), std::string::npos);
  client.received.clear();
  ASSERT_TRUE(client.send("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"));
  EXPECT_TRUE(client.read_until("{POST /b 3}abc"));
}

TEST_F(HttpServerTest, pipelined_requests_are_answered_in_order) {
  start();
  RawClient client(server_->port());
  // A DELETE without a body must not eat what follows it.
  ASSERT_TRUE(
      client.send("DELETE /x HTTP/1.1\r\nHost: h\r\n\r\n"
                  "GET /late HTTP/1.1\r\nHost: h\r\n\r\n"
                  "POST /y HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"
                  "GET /z HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(client.read_to_end());
  const size_t first = client.received.find("{DELETE /x 0}");
  const size_t second = client.received.find("<0><1><2><3><4>");
  const size_t third = client.received.find("{POST /y 2}hi");
  const size_t fourth = client.received.find("{GET /z 0}");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_LT(third, fourth);
  EXPECT_NE(fourth, std::string::npos);
}

TEST_F(HttpServerTest, request_sent_while_a_stream_runs_is_answered_after_it) {
  start();
  n_ticks_ = 50;
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /ticks HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(client.read_until("<1>"));
  ASSERT_TRUE(client.send("GET /after HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(client.read_until("{GET /after 0}"));
  EXPECT_LT(client.received.find("<49>"), client.received.find("\r\n0\r\n\r\n"));
  EXPECT_EQ(n_unfinished_.load(), 0);
}

TEST_F(HttpServerTest, a_body_of_unknown_transfer_coding_ends_the_connection) {
  start();
  RawClient client(server_->port());
  client.send(
      "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n"
      "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(client.read_until("the only transfer coding read here is chunked"));
  EXPECT_EQ(client.received.rfind("HTTP/1.1 501 ", 0), 0u) << client.received;
  EXPECT_FALSE(client.read_until("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, chunked_request_bodies_are_decoded) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(
      client.send("POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\nabc\r\n"));
  ASSERT_TRUE(client.send("A;ext=1\r\n0123456789\r\n0\r\n\r\n"));
  EXPECT_TRUE(client.read_until("{POST /c 13}abc0123456789"));
}

TEST_F(HttpServerTest, requests_arriving_byte_by_byte_are_read) {
  start();
  RawClient client(server_->port());
  for (const char c :
       std::string_view("POST /d HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nslow")) {
    ASSERT_TRUE(client.send({&c, 1}));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(client.read_until("{POST /d 4}slow")) << client.received;
}

TEST_F(HttpServerTest, large_bodies_go_through_a_helper_thread) {
  start();
  RawClient client(server_->port());
  const std::string body(1'500'000, 'b');
  ASSERT_TRUE(client.send(
      fmt::format("POST /e HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.size())));
  ASSERT_TRUE(client.send(body));
  EXPECT_TRUE(client.read_until("{POST /e 1500000}"));
}

TEST_F(HttpServerTest, a_large_body_that_takes_long_holds_up_no_other) {
  start();
  const std::string body(100'000, 'b');
  const auto post = [&](RawClient& client, const char* path) {
    return client.send(fmt::format(
        "POST {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{}", path, body.size(), body));
  };
  RawClient slow(server_->port());
  ASSERT_TRUE(post(slow, "/block"));
  n_blocked_.wait(0);
  RawClient quick(server_->port());
  ASSERT_TRUE(post(quick, "/quick"));
  EXPECT_TRUE(quick.read_until("{POST /quick 100000}"));
  is_blocking_.store(false);
  is_blocking_.notify_all();
  EXPECT_TRUE(slow.read_until("{POST /block 100000}"));
}

TEST_F(HttpServerTest, headers_are_limited_as_a_whole_however_they_arrive) {
  HttpServerOptions options;
  options.max_header_bytes = 4000;
  start(options);
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /a HTTP/1.1\r\nHost: h\r\n"));
  for (int i = 0; i < 100; ++i) {  // each far below the limit
    client.send(fmt::format("X-{}: {}\r\n", i, std::string(40, 'v')));
    std::this_thread::sleep_for(milliseconds(1));
  }
  client.send("\r\n");
  EXPECT_TRUE(client.read_until("headers are larger than 4000 bytes")) << client.received;
  EXPECT_EQ(client.received.rfind("HTTP/1.1 431 ", 0), 0u);
}

TEST_F(HttpServerTest, the_frame_of_chunks_is_limited_too) {
  HttpServerOptions options;
  options.max_header_bytes = 4000;
  start(options);
  for (const char* frame : {"1;x=", "1\r\na\r\n0\r\nTrailer: "}) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.send("POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"));
    client.send(frame);
    for (int i = 0; i < 10; ++i) {
      client.send(std::string(1000, 'y'));
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_TRUE(client.read_until("too long")) << frame;
    EXPECT_EQ(client.received.rfind("HTTP/1.1 400 ", 0), 0u);
  }
}

TEST_F(HttpServerTest, http_1_1_needs_one_host_and_http_1_0_none) {
  start();
  for (const char* headers : {"", "Host: a\r\nHost: b\r\n", "Host: a/b\r\n", "Host: u@a\r\n"}) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.send(fmt::format("GET /a HTTP/1.1\r\n{}\r\n", headers)));
    ASSERT_TRUE(client.read_to_end());
    EXPECT_EQ(client.received.rfind("HTTP/1.1 400 ", 0), 0u) << headers << client.received;
  }
  RawClient old(server_->port());
  ASSERT_TRUE(old.send("GET /a HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(old.read_until("{GET /a 0}"));
}

TEST_F(HttpServerTest, whole_urls_are_routed_by_their_path_and_name_the_host) {
  start();
  for (const char* target : {"http://other:80/a", "HTTP://other:80/a?q=http://x", "/a"}) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.send(fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", target)));
    EXPECT_TRUE(client.read_until("{GET /a 0}")) << target << client.received;
  }
  RawClient bare(server_->port());
  ASSERT_TRUE(bare.send("GET http://other HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(bare.read_until("{GET / 0}"));
  RawClient host(server_->port());
  ASSERT_TRUE(host.send("GET http://other:80/host HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(host.read_until("[other:80]")) << host.received;
  RawClient odd(server_->port());
  ASSERT_TRUE(odd.send("GET elsewhere HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(odd.read_until("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, line_ends_between_requests_are_skipped) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(
      client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi\r\n"
                  "GET /b HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(client.read_until("{GET /b 0}")) << client.received;
  ASSERT_TRUE(client.send("\r\n"));
  ASSERT_TRUE(client.send("\r\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n"));
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
    RawClient client(server_->port());
    ASSERT_TRUE(client.send(fmt::format(
        "POST /a HTTP/1.1\r\nHost: h\r\n{}\r\nabcGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n",
        headers)));
    ASSERT_TRUE(client.read_to_end());
    EXPECT_EQ(client.received.rfind("HTTP/1.1 400 ", 0), 0u) << headers << client.received;
    EXPECT_EQ(client.received.find("smuggled"), std::string::npos) << headers;
  }
}

TEST_F(HttpServerTest, oversized_bodies_get_413_and_the_answer_is_readable) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  start(options);
  RawClient declared(server_->port());
  ASSERT_TRUE(declared.send("POST /f HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n"));
  declared.send(std::string(2'000'000, 'x'));
  EXPECT_TRUE(declared.read_until("larger than 1000 bytes")) << declared.received;
  EXPECT_EQ(declared.received.rfind("HTTP/1.1 413 ", 0), 0u);

  RawClient chunked(server_->port());
  ASSERT_TRUE(
      chunked.send("POST /f HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n"));
  chunked.send(std::string(2000, 'x'));
  EXPECT_TRUE(chunked.read_until("larger than 1000 bytes"));
  EXPECT_EQ(chunked.received.rfind("HTTP/1.1 413 ", 0), 0u);
}

TEST_F(HttpServerTest, expect_continue_is_answered_before_the_body) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.send(
      "POST /g HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  ASSERT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  ASSERT_TRUE(client.send("ok"));
  EXPECT_TRUE(client.read_until("{POST /g 2}ok"));

  RawClient refused(server_->port());
  ASSERT_TRUE(refused.send(
      "POST /refused HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  ASSERT_TRUE(refused.read_to_end());
  EXPECT_EQ(refused.received.rfind("HTTP/1.1 401 ", 0), 0u);

  RawClient odd(server_->port());
  ASSERT_TRUE(odd.send("POST /g HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: tea\r\n\r\n"));
  ASSERT_TRUE(odd.read_until("100-continue can be met"));
  EXPECT_EQ(odd.received.rfind("HTTP/1.1 417 ", 0), 0u);
}

TEST_F(HttpServerTest, refused_requests_with_small_bodies_keep_the_connection) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(
      client.send("POST /refused HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
                  "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(client.read_until("{GET /next 0}"));
  EXPECT_EQ(client.received.rfind("HTTP/1.1 401 ", 0), 0u);
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
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.send(garbage));
    EXPECT_TRUE(client.read_to_end());
    EXPECT_EQ(client.received.rfind("HTTP/1.1 400 ", 0), 0u) << garbage << client.received;
  }
  RawClient big(server_->port());
  ASSERT_TRUE(big.send("GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(70'000, 'h')));
  EXPECT_TRUE(big.read_until("headers are larger"));
  EXPECT_EQ(big.received.rfind("HTTP/1.1 431 ", 0), 0u);
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /still HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(client.read_until("{GET /still 0}"));
}

TEST_F(HttpServerTest, handler_exceptions_become_500) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(
      client.send("GET /throw HTTP/1.1\r\nHost: h\r\n\r\nGET /next HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(client.read_until("{GET /next 0}"));
  EXPECT_EQ(client.received.rfind("HTTP/1.1 500 ", 0), 0u);
}

TEST_F(HttpServerTest, slow_headers_and_bodies_are_cut_off) {
  HttpServerOptions options;
  options.header_timeout = milliseconds(50);
  options.body_timeout = milliseconds(50);
  options.idle_timeout = milliseconds(50);
  start(options);
  RawClient headers(server_->port());
  ASSERT_TRUE(headers.send("GET / HTTP/1.1\r\nHost: h\r\nX: "));
  EXPECT_TRUE(headers.read_to_end());
  EXPECT_EQ(headers.received.rfind("HTTP/1.1 408 ", 0), 0u);
  RawClient body(server_->port());
  ASSERT_TRUE(body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc"));
  EXPECT_TRUE(body.read_until("body took too long"));
  RawClient idle(server_->port());
  EXPECT_TRUE(idle.read_to_end());
  EXPECT_EQ(idle.received, "");
}

TEST_F(HttpServerTest, head_has_the_headers_of_get_and_no_body) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(client.read_to_end());
  EXPECT_NE(client.received.find("Content-Length: 11\r\n"), std::string::npos);
  EXPECT_EQ(client.received.substr(client.received.size() - 4), "\r\n\r\n");
}

TEST_F(HttpServerTest, http_1_0_streams_until_the_connection_closes) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /ticks HTTP/1.0\r\n\r\n"));
  ASSERT_TRUE(client.read_to_end());
  EXPECT_EQ(client.received.find("chunked"), std::string::npos);
  EXPECT_EQ(client.received.substr(client.received.size() - 15), "<0><1><2><3><4>");
}

TEST_F(HttpServerTest, leaving_client_destroys_the_source_in_both_modes) {
  start();
  n_ticks_ = 100'000;
  for (const char* path : {"/ticks", "/late"}) {
    const int before = n_unfinished_.load();
    RawClient client(server_->port());
    ASSERT_TRUE(client.send(fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", path)));
    ASSERT_TRUE(eventually([&] { return server_->n_requests_running() == 1; }));
    client.close();
    EXPECT_TRUE(eventually([&] { return n_unfinished_.load() == before + 1; })) << path;
    EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  }
}

TEST_F(HttpServerTest, half_closed_client_still_gets_an_answer_that_is_ready) {
  start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
  client.shutdown_send();
  ASSERT_TRUE(client.read_to_end());
  EXPECT_NE(client.received.find("{GET /a 0}"), std::string::npos);
}

// shutdown(SHUT_WR) only says that no more requests follow.
TEST_F(HttpServerTest, half_closed_client_gets_an_answer_that_takes_a_while) {
  start();
  n_ticks_ = 50;
  for (const char* version : {"HTTP/1.1", "HTTP/1.0"}) {
    for (const char* path : {"/ticks", "/late"}) {
      RawClient client(server_->port());
      ASSERT_TRUE(client.send(fmt::format("GET {} {}\r\nHost: h\r\n\r\n", path, version)));
      client.shutdown_send();
      ASSERT_TRUE(client.read_to_end());
      EXPECT_NE(client.received.find("<49>"), std::string::npos) << version << client.received;
      EXPECT_NE(client.received.find(" 200 OK\r\n"), std::string::npos);
    }
  }
  EXPECT_EQ(n_unfinished_.load(), 0);
}

TEST_F(HttpServerTest, half_closed_client_that_leaves_later_is_noticed) {
  start();
  n_ticks_ = 100'000;
  for (const char* path : {"/ticks", "/late"}) {
    const int before = n_unfinished_.load();
    RawClient client(server_->port());
    ASSERT_TRUE(client.send(fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", path)));
    client.shutdown_send();
    ASSERT_TRUE(eventually([&] { return server_->n_requests_running() == 1; }));
    client.close();
    EXPECT_TRUE(eventually([&] { return n_unfinished_.load() == before + 1; })) << path;
    EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  }
}

TEST_F(HttpServerTest, leaving_is_noticed_behind_any_amount_of_pipelined_bytes) {
  start();
  n_ticks_ = 100'000;
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /late HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(eventually([&] { return server_->n_requests_running() == 1; }));
  ASSERT_TRUE(client.send(std::string(300'000, 'p')));
  client.close();
  EXPECT_TRUE(eventually([&] { return n_unfinished_.load() == 1; }));
}

TEST_F(HttpServerTest, too_much_behind_a_request_is_dropped_and_its_answer_still_comes) {
  start();
  n_ticks_ = 50;
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /ticks HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(client.read_until("<1>"));
  ASSERT_TRUE(client.send(std::string(300'000, 'p')));
  ASSERT_TRUE(client.read_to_end());
  EXPECT_NE(client.received.find("<49>"), std::string::npos);
}

TEST_F(HttpServerTest, a_full_server_closes_idle_connections_to_make_room) {
  HttpServerOptions options;
  options.max_connections = 1;
  options.crowded_idle_timeout = milliseconds(0);
  start(options);
  RawClient idle(server_->port());
  ASSERT_TRUE(idle.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(idle.read_until("{GET /a 0}"));
  RawClient refused(server_->port());
  ASSERT_TRUE(refused.read_to_end());
  EXPECT_EQ(refused.received.rfind("HTTP/1.1 503 ", 0), 0u);
  EXPECT_TRUE(idle.read_to_end());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  RawClient next(server_->port());
  ASSERT_TRUE(next.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(next.read_until("{GET /a 0}"));
}

TEST_F(HttpServerTest, slow_reader_holds_a_bounded_amount_and_is_cut_off) {
  HttpServerOptions options;
  options.write_timeout = milliseconds(200);
  start(options);
  RawClient client(server_->port());
  client.set_receive_buffer(4096);
  ASSERT_TRUE(client.send("GET /flood HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(eventually([&] { return n_floods_ended_.load() == 1; }));
  EXPECT_LT(n_flood_bytes_.load(), 16 << 20);  // what the kernel's socket buffers take
}

TEST_F(HttpServerTest, connections_above_the_limit_get_503) {
  HttpServerOptions options;
  options.max_connections = 2;
  start(options);
  RawClient first(server_->port());
  RawClient second(server_->port());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 2; }));
  RawClient third(server_->port());
  ASSERT_TRUE(third.read_to_end());
  EXPECT_EQ(third.received.rfind("HTTP/1.1 503 ", 0), 0u);
  first.close();
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
  RawClient fourth(server_->port());
  ASSERT_TRUE(fourth.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(fourth.read_until("{GET /a 0}"));
}

TEST_F(HttpServerTest, drain_closes_idle_connections_answers_new_ones_and_finishes_running_ones) {
  start();
  n_ticks_ = 100;
  RawClient idle(server_->port());
  ASSERT_TRUE(idle.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(idle.read_until("\r\n\r\n"));
  RawClient fresh(server_->port());
  RawClient busy(server_->port());
  ASSERT_TRUE(busy.send("GET /ticks HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(busy.read_until("<2>"));
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 3; }));
  EXPECT_FALSE(server_->wait_idle(milliseconds(1)));
  server_->begin_drain();
  EXPECT_TRUE(idle.read_to_end());
  // Both had asked for nothing yet; what they ask for is answered.
  RawClient late(server_->port());
  for (RawClient* client : {&fresh, &late}) {
    std::this_thread::sleep_for(milliseconds(20));
    ASSERT_TRUE(client->send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
    EXPECT_TRUE(client->read_to_end());
    EXPECT_NE(client->received.find("HTTP/1.1 200"), std::string::npos);
    EXPECT_NE(client->received.find("Connection: close"), std::string::npos);
  }
  EXPECT_TRUE(server_->wait_idle(milliseconds(10'000)));
  EXPECT_TRUE(busy.read_until("<99>\r\n0\r\n\r\n"));
}

TEST_F(HttpServerTest, destroying_the_server_cuts_running_requests) {
  start();
  n_ticks_ = 100'000;
  RawClient client(server_->port());
  ASSERT_TRUE(client.send("GET /ticks HTTP/1.1\r\nHost: h\r\n\r\n"));
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
      RawClient client(server_->port());
      client.send("GET /ticks HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
      std::string expected;
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

// What the transport refuses by itself: how it says so, and that it keeps nobody else out.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "server/http_server.h"
#include "server/raw_client.h"

namespace millrace {
namespace {

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

class HttpLimitsTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    options.port = 0;
    HttpHandler handler;
    handler.admit = [](const HttpRequest&) { return std::nullopt; };
    handler.handle = [](const HttpRequest& request, const Waker&) {
      Reply reply;
      reply.response.body = fmt::format("[{} {}]", request.method, request.path);
      return reply;
    };
    handler.refuse = [](int status, std::string_view reason, const HttpRequest* head) {
      const std::string* id = head != nullptr ? head->header("x-request-id") : nullptr;
      return HttpResponse{status,
                          "application/json",
                          {{"X-Request-Id", id != nullptr ? *id : "none"}},
                          fmt::format("[{}]", reason)};
    };
    auto started = HttpServer::start(options, handler);
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
  }

  RawClient connect(std::string_view bytes = "") { return RawClient(server_->port(), bytes); }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpLimitsTest, a_refusal_after_a_head_request_has_its_body) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  options.max_header_bytes = 4000;
  options.header_timeout = std::chrono::milliseconds(50);
  start(options);
  const std::string long_header = fmt::format("GET / HTTP/1.1\r\nX: {}", std::string(5000, 'x'));
  for (const auto& [bytes, status] : std::vector<std::pair<std::string, int>>{
           {"garbage\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost", 408},
           {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n", 413},
           {long_header, 431}}) {
    RawClient client = connect("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(client.read_until("\r\n\r\n"));
    client.received.clear();
    client.send(bytes);
    EXPECT_TRUE(client.read_to_end());
    EXPECT_EQ(client.status(), status);
    EXPECT_TRUE(client.received.ends_with("]")) << client.received;
  }
}

TEST_F(HttpLimitsTest, a_refusal_knows_what_was_understood_of_the_headers) {
  HttpServerOptions options;
  options.max_body_bytes = 100'000;
  options.max_bodies_bytes = 100'000;
  options.max_header_bytes = 4000;
  options.header_timeout = std::chrono::milliseconds(50);
  options.body_timeout = std::chrono::milliseconds(50);
  start(options);
  struct Case {
    std::string headers;  // and what follows them
    int status;
    const char* id = "abc-1";
  };
  const Case cases[] = {
      {"Content-Length: 100001\r\n\r\n", 413},
      {"Transfer-Encoding: chunked\r\n\r\n186a1\r\n" + std::string(100'001, 'x'), 413},
      {"Transfer-Encoding: gzip\r\n\r\n", 501},
      {"Content-Length: 2\r\nExpect: tea\r\n\r\n", 417},
      {"Content-Length: 2\r\n\r\nx", 408},
      {"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"Transfer-Encoding: chunked\r\n\r\n1;" + std::string(10'000, 'x'), 400},
      {"X: " + std::string(5'000, 'x'), 431},
      {"X: ", 408},
      {"Host: other\r\n\r\n", 400, "none"},  // whose request this is depends on the reader
  };
  for (const Case& one : cases) {
    RawClient client =
        connect("POST /a HTTP/1.1\r\nHost: h\r\nX-Request-Id: abc-1\r\n" + one.headers);
    EXPECT_TRUE(client.read_until("]")) << one.headers.substr(0, 50);
    EXPECT_EQ(client.status(), one.status) << one.headers.substr(0, 50);
    EXPECT_TRUE(client.has(fmt::format("X-Request-Id: {}\r\n", one.id))) << client.received;
  }
  RawClient head = connect("HEAD /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\n\r\n");
  EXPECT_TRUE(head.read_to_end());
  EXPECT_EQ(head.status(), 413);
  EXPECT_TRUE(head.received.ends_with("\r\n\r\n")) << head.received;
}

TEST_F(HttpLimitsTest, refused_connections_take_no_place_however_long_they_stay) {
  HttpServerOptions options;
  options.max_connections = 2;
  start(options);
  {
    RawClient first = connect(kGet);
    RawClient second = connect(kGet);
    ASSERT_TRUE(first.read_until("[GET /a]") && second.read_until("[GET /a]"));
    std::vector<RawClient> refused;  // more than may linger; they read their answer and stay
    for (int i = 0; i < 40; ++i) {
      refused.push_back(connect());
      ASSERT_TRUE(refused.back().read_until("[too many connections]")) << i;
      ASSERT_EQ(server_->n_connections(), 2) << i;
    }
    first.close();
    ASSERT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
    EXPECT_TRUE(connect(kGet).read_until("[GET /a]"));
  }
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
}

}  // namespace
}  // namespace millrace

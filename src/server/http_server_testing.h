#pragma once
// For tests: a server whose replies tick, flood, come late, block or throw, and its raw clients.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/http_server.h"
#include "server/raw_client.h"

namespace millrace {

// Emits numbered pieces, one a tick of its own thread, until it has sent n of them.
class TickSource : public ReplySource {
 public:
  TickSource(Waker wake,
             int n_ticks,
             std::chrono::milliseconds period,
             std::atomic<int>& n_destroyed_unfinished)
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

// Fails when it is asked for something.
class BrokenSource : public ReplySource {
 public:
  Progress pull(HttpResponse&) override { throw std::runtime_error("source broke"); }
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

inline std::string get(std::string_view path, std::string_view headers = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n{}\r\n", path, headers);
}

// A Content-Length unless the headers say how long the body is.
inline std::string post(std::string_view path,
                        std::string_view body,
                        std::string_view headers = "") {
  const bool has_length =
      headers.find("Length") != headers.npos || headers.find("Transfer-Encoding") != headers.npos;
  return fmt::format("POST {} HTTP/1.1\r\nHost: h\r\n{}{}\r\n{}",
                     path,
                     headers,
                     has_length ? "" : fmt::format("Content-Length: {}\r\n", body.size()),
                     body);
}

inline constexpr std::string_view kChunked = "Transfer-Encoding: chunked\r\n";

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
    handler.refuse = [](int status, std::string_view reason, const HttpRequest* head) {
      HttpResponse response{status, "application/json", {}, fmt::format("[{}]", reason)};
      if (head != nullptr) {
        response.headers.push_back({"Refused", head->method + " " + head->path});
      }
      return response;
    };
    auto started = HttpServer::start(options, handler);
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
  }

  Reply answer(HttpRequest request, Waker wake) {
    Reply reply;
    if (request.path == "/ticks" || request.path == "/late") {
      reply.source =
          std::make_unique<TickSource>(wake, n_ticks_, std::chrono::milliseconds(2), n_unfinished_);
      reply.streams = request.path == "/ticks";
    } else if (request.path == "/flood") {
      reply.source = std::make_unique<FloodSource>(wake, n_flood_bytes_, n_floods_ended_);
      reply.streams = true;
    } else if (request.path.starts_with("/decided")) {
      reply.decide = decide_late(request, wake);
    } else if (request.path.starts_with("/break")) {
      reply.source = std::make_unique<BrokenSource>();
      reply.streams = request.path == "/break/stream";
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
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
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

}  // namespace millrace

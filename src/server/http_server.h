#pragma once
// The HTTP/1.1 transport: connections, limits, time-outs, chunked bodies, back-pressure, noticing
// that a client has left. Boost.Beast and Asio are hidden in http_server.cpp,
// http_connection.cpp and http_message.cpp. A connection belongs to one I/O thread. start,
// begin_drain and wait_idle may be called by any thread.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http.h"

namespace millrace {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address, not a name
  uint16_t port = 8080;            // 0: any free one
  int n_io_threads = 2;
  int n_helper_threads = 4;  // for requests with large bodies
  int max_connections = 1024;
  size_t max_body_bytes = size_t{32} << 20;
  // Of all large bodies together, until they have been read and parsed. A body that finds no room
  // is refused with 503 before it is read, a chunked one when it grows too large.
  size_t max_bodies_bytes = 0;  // 0: eight times max_body_bytes
  size_t max_header_bytes = size_t{64} << 10;
  size_t large_body_bytes = size_t{64} << 10;  // from here the handler runs on a helper thread
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};  // between requests
  // The same once max_connections is reached, so that idle ones make room.
  std::chrono::milliseconds crowded_idle_timeout{5'000};
  std::chrono::milliseconds write_timeout{30'000};  // a reader slower than this is cut off
};

class HttpServer {
 public:
  // Listens and serves when this returns.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                   HttpHandler handler);
  ~HttpServer();  // cuts what is still open
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8080"

  int n_connections() const;  // those that were refused are not among them
  int n_requests_running() const;
  size_t body_bytes() const;  // of large bodies just now

  // From now on every reply ends its connection; idle connections are closed.
  void begin_drain();
  // True when no request was running any more before the time was up.
  bool wait_idle(std::chrono::milliseconds limit) const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#include "server/http_server.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/http_connection.h"

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};  // after running out of descriptors
constexpr std::chrono::milliseconds kIdlePoll{5};
// From this size on memory comes straight from the system and goes back when it is freed. Left to
// itself the allocator raises the bound to the largest body seen, and then keeps as much a thread.
constexpr int kMappedBytes = 1 << 20;

asio::awaitable<void> serve_wakes(IoThread& thread, asio::posix::stream_descriptor& descriptor) {
  while (true) {
    SystemError error;
    co_await descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                   asio::redirect_error(asio::use_awaitable, error));
    if (error) {
      co_return;
    }
    thread.wakes->drain([](HttpConnection& connection) { connection.wake(); });
  }
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(const HttpServerOptions& options) : shared(options) {}

  HttpShared shared;
  asio::io_context helper;
  asio::executor_work_guard<asio::io_context::executor_type> helper_work{helper.get_executor()};
  std::vector<std::unique_ptr<IoThread>> io_threads;
  std::vector<std::unique_ptr<asio::posix::stream_descriptor>> descriptors;
  std::optional<tcp::acceptor> acceptor;
  std::vector<std::thread> threads;
  uint16_t port = 0;

  Result<void> listen();
  void run();
  asio::awaitable<void> accept_loop();
  void close_idle(std::chrono::milliseconds at_least);
  ~Impl();
};

Result<void> HttpServer::Impl::listen() {
  const HttpServerOptions& options = shared.options;
  SystemError error;
  const auto address = asio::ip::make_address(options.host, error);
  if (error) {
    return fail(
        ErrorCode::kInvalidArgument,
        "--host {}: not an IP address (use 127.0.0.1 for this machine only, 0.0.0.0 for all "
        "interfaces)",
        options.host);
  }
  const tcp::endpoint endpoint(address, options.port);
  acceptor.emplace(io_threads[0]->context);
  acceptor->open(endpoint.protocol(), error);
  if (!error) {
    acceptor->set_option(asio::socket_base::reuse_address(true), error);
  }
  if (!error) {
    acceptor->bind(endpoint, error);
  }
  if (!error) {
    acceptor->listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    return fail(ErrorCode::kIo,
                "cannot listen on {}:{}: {} ({})",
                options.host,
                options.port,
                error.message(),
                error == asio::error::address_in_use || error == asio::error::access_denied
                    ? "choose another with --port, 0 for any free one"
                    : "--host must be an address of this machine");
  }
  port = acceptor->local_endpoint(error).port();
  return {};
}

void HttpServer::Impl::run() {
  for (auto& thread : io_threads) {
    descriptors.push_back(std::make_unique<asio::posix::stream_descriptor>(
        thread->context, ::dup(thread->wakes->descriptor())));
    asio::co_spawn(thread->context, serve_wakes(*thread, *descriptors.back()), asio::detached);
  }
  asio::co_spawn(io_threads[0]->context, accept_loop(), asio::detached);
  for (auto& thread : io_threads) {
    threads.emplace_back([context = &thread->context] { context->run(); });
  }
  for (int i = 0; i < std::max(1, shared.options.n_helper_threads); ++i) {
    threads.emplace_back([this] { helper.run(); });
  }
}

void HttpServer::Impl::close_idle(std::chrono::milliseconds at_least) {
  for (auto& thread : io_threads) {
    asio::post(thread->context, [thread = thread.get(), at_least] {
      for (HttpConnection* connection : thread->connections) {
        connection->close_if_idle(at_least);
      }
    });
  }
}

asio::awaitable<void> HttpServer::Impl::accept_loop() {
  for (size_t next = 0;; next = (next + 1) % io_threads.size()) {
    IoThread& thread = *io_threads[next];
    SystemError error;
    tcp::socket socket = co_await acceptor->async_accept(
        thread.context, asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) {
      co_return;
    }
    if (error) {
      log_warning("[http] accept: {}", error.message());
      asio::steady_timer pause(io_threads[0]->context, kAcceptPause);
      SystemError ignored;
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      continue;
    }
    // Only this loop adds connections. One that is refused takes no place, however long it stays.
    const bool is_full = shared.n_connections.load() >= shared.options.max_connections;
    std::atomic<int>& counter = is_full ? shared.n_refused : shared.n_connections;
    counter.fetch_add(1);
    if (is_full) {
      close_idle(shared.options.crowded_idle_timeout);
    }
    auto task = [this, &thread, is_full, &counter, moved = std::move(socket)]() mutable {
      auto connection = std::make_shared<HttpConnection>(std::move(moved), thread, shared, counter);
      asio::co_spawn(thread.context,
                     is_full ? connection->run_refused() : connection->run(),
                     [connection](std::exception_ptr) {});
    };
    asio::post(thread.context, std::move(task));
  }
}

HttpServer::Impl::~Impl() {
  for (auto& thread : io_threads) {
    thread->context.stop();
  }
  helper.stop();
  for (std::thread& thread : threads) {
    thread.join();
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                      HttpHandler handler) {
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  auto impl = std::make_unique<Impl>(options);
  impl->shared.handler = std::move(handler);
  impl->shared.helper = &impl->helper;
  for (int i = 0; i < std::max(1, options.n_io_threads); ++i) {
    impl->io_threads.push_back(std::make_unique<IoThread>());
  }
  if (auto listening = impl->listen(); !listening) {
    return propagate(listening);
  }
  impl->run();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const {
  return impl_->port;
}

std::string HttpServer::url() const {
  const std::string& host = impl_->shared.options.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host, impl_->port)
               : fmt::format("http://{}:{}", host, impl_->port);
}

int HttpServer::n_connections() const {
  return impl_->shared.n_connections.load();
}

int HttpServer::n_requests_running() const {
  return impl_->shared.n_running.load();
}

size_t HttpServer::body_bytes() const {
  return impl_->shared.bodies.used();
}

void HttpServer::begin_drain() {
  impl_->shared.is_draining.store(true);
  impl_->close_idle(std::chrono::milliseconds(0));
}

bool HttpServer::wait_idle(std::chrono::milliseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (n_requests_running() > 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(kIdlePoll);
  }
  return true;
}

}  // namespace millrace

#pragma once
// One client's connection, private to the transport. Lives on its I/O thread from accept to close.

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "server/asio.h"
#include "server/body_budget.h"
#include "server/http_server.h"
#include "server/wake_queue.h"

namespace millrace {

class HttpConnection;
using ConnectionWakeQueue = WakeQueue<HttpConnection>;

// What all connections of a server share.
struct HttpShared {
  explicit HttpShared(const HttpServerOptions& all)
      : options(all),
        bodies(all.max_bodies_bytes > 0 ? all.max_bodies_bytes : 8 * all.max_body_bytes,
               all.large_body_bytes) {}

  const HttpServerOptions options;
  HttpHandler handler;
  BodyBudget bodies;
  std::atomic<bool> is_draining{false};
  std::atomic<int> n_connections{0};  // that are served
  std::atomic<int> n_refused{0};      // besides them: told that there are too many, not closed yet
  std::atomic<int> n_running{0};      // requests between their last byte in and their last byte out
  asio::io_context* helper = nullptr;  // its threads run the handler for large bodies
};

// One thread that serves its share of the connections.
struct IoThread {
  std::unordered_set<HttpConnection*> connections;
  std::shared_ptr<ConnectionWakeQueue> wakes = std::make_shared<ConnectionWakeQueue>();
  asio::io_context context{1};  // after what its handlers refer to
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // counter: where it was counted; it takes itself off at its end.
  HttpConnection(tcp::socket socket,
                 IoThread& thread,
                 HttpShared& shared,
                 std::atomic<int>& counter);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  asio::awaitable<void> run();
  // The connection limit is reached: says so and closes.
  asio::awaitable<void> run_refused();
  void wake();
  // Closes a connection that has waited so long for its next request.
  void close_if_idle(std::chrono::milliseconds at_least);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  asio::awaitable<bool> serve_one();
  asio::awaitable<bool> read_head(Parser& parser);
  asio::awaitable<bool> read_body(Parser& parser,
                                  const HttpRequest& head,
                                  BodyBudget::Share& share);
  size_t skip_line_ends();
  asio::awaitable<bool> handle(HttpRequest request, BodyBudget::Share share);
  // head: for the answer to a request that the handler fails on.
  asio::awaitable<Reply> call_handler(HttpRequest request,
                                      std::shared_ptr<const HttpRequest> head,
                                      BodyBudget::Share share);
  asio::awaitable<bool> answer_from_source(Reply& reply);
  asio::awaitable<void> wait_for_wake();

  asio::awaitable<bool> fill();
  asio::awaitable<bool> write(std::string_view bytes);
  asio::awaitable<bool> write_response(const HttpResponse& response);
  asio::awaitable<void> close();

  // http_connection_refusals.cpp
  asio::awaitable<bool> refuse_head(const Parser& parser, int status, std::string_view reason);
  asio::awaitable<bool> refuse_head(const Parser& parser, const SystemError& error);
  asio::awaitable<bool> refuse_body(const HttpRequest& head, int status, std::string_view reason);
  asio::awaitable<bool> refuse_body(const HttpRequest& head, const SystemError& error);
  asio::awaitable<bool> answer_refusal(Parser& parser,
                                       const HttpRequest& head,
                                       const HttpResponse& response);
  // head: see HttpHandler::refuse.
  static HttpResponse refusal(const HttpHandler& handler,
                              int status,
                              std::string_view reason,
                              const HttpRequest* head);
  asio::awaitable<void> refuse(int status, std::string_view reason, const HttpRequest* head);

  void set_deadline(std::chrono::milliseconds limit);
  void clear_deadline();
  void watch_client();
  void look_at_client();
  std::string_view probe(bool streams) const;
  void stop_watching();
  std::string head_of(const HttpResponse& response, std::string_view framing) const;

  tcp::socket socket_;
  IoThread& thread_;
  HttpShared& shared_;
  std::atomic<int>& counter_;
  boost::beast::flat_buffer buffer_;  // bytes received and not parsed yet
  asio::steady_timer deadline_;
  asio::steady_timer wake_timer_;  // never expires: cancelled to wake the coroutine
  std::shared_ptr<ConnectionWakeQueue::Slot> slot_;
  uint64_t watch_number_ = 0;  // tells a stale watcher from the present one
  bool is_woken_ = false;
  bool is_client_gone_ = false;
  bool is_half_closed_ = false;  // it sends nothing more; it may still read, or be gone
  bool is_probe_due_ = false;    // find out which
  bool has_begun_answer_ = false;
  bool drops_input_ = false;  // it sent too much behind a request
  bool is_timed_out_ = false;
  bool is_idle_ = false;
  bool closes_when_idle_ = false;
  bool has_served_ = false;  // or begun to: a new connection's first request is owed an answer
  std::chrono::steady_clock::time_point idle_since_{};
  bool keeps_alive_ = true;
  bool has_unread_input_ =
      false;  // closing must not reset the connection before the answer is read
  bool is_http_1_0_ = false;
  bool is_head_request_ = false;
};

}  // namespace millrace

// What a connection answers by itself: requests that never became one, and too many of them.

#include <fmt/format.h>

#include "server/http_connection.h"
#include "server/http_message.h"

namespace millrace {
namespace {

namespace http = boost::beast::http;

// What a refused request may still send before its connection is closed instead of drained.
constexpr size_t kDrainBytes = 64 * 1024;
// Refused connections that may stay open for so long; more are closed at once.
constexpr int kMaxLingering = 32;

int status_of_parse_error(const SystemError& error) {
  if (error == http::error::body_limit) {
    return 413;
  }
  return error == http::error::header_limit ? 431 : 400;
}

std::string reason_of_parse_error(const SystemError& error, const HttpServerOptions& options) {
  switch (status_of_parse_error(error)) {
    case 413:
      return fmt::format("the body is larger than {} bytes, the limit of this server",
                         options.max_body_bytes);
    case 431:
      return fmt::format("the headers are larger than {} bytes", options.max_header_bytes);
    default:
      return fmt::format("not an HTTP/1.1 request: {}", error.message());
  }
}

}  // namespace

asio::awaitable<void> HttpConnection::run_refused() {
  has_unread_input_ = true;
  co_await refuse(503, "too many connections", nullptr);
  if (shared_.n_refused.load() <= kMaxLingering) {
    co_await close();
  }
}

// Headers that are not whole, or wrong: what is known of them decides how they are answered. The
// connection is to be closed, here and below.
asio::awaitable<bool> HttpConnection::refuse_head(const Parser& parser,
                                                  int status,
                                                  std::string_view reason) {
  has_unread_input_ = true;
  is_head_request_ = parser.get().method() == http::verb::head;
  const auto head = to_request(parser.get());
  co_await refuse(status, reason, head ? &*head : nullptr);
  co_return false;
}

asio::awaitable<bool> HttpConnection::refuse_head(const Parser& parser, const SystemError& error) {
  co_return co_await refuse_head(
      parser, status_of_parse_error(error), reason_of_parse_error(error, shared_.options));
}

asio::awaitable<bool> HttpConnection::refuse_body(const HttpRequest& head,
                                                  int status,
                                                  std::string_view reason) {
  has_unread_input_ = true;
  co_await refuse(status, reason, &head);
  co_return false;
}

asio::awaitable<bool> HttpConnection::refuse_body(const HttpRequest& head,
                                                  const SystemError& error) {
  co_return co_await refuse_body(
      head, status_of_parse_error(error), reason_of_parse_error(error, shared_.options));
}

// A small body is read and dropped so that the connection can go on; else it is closed.
asio::awaitable<bool> HttpConnection::answer_refusal(Parser& parser,
                                                     const HttpRequest& head,
                                                     const HttpResponse& response) {
  if (!parser.is_done()) {
    const auto length = parser.content_length();
    const bool is_small = length && *length <= kDrainBytes;
    if (is_small && parser.get().find(http::field::expect) == parser.get().end()) {
      BodyBudget::Share share(shared_.bodies);
      if (!co_await read_body(parser, head, share)) {
        co_return false;
      }
    } else {
      has_unread_input_ = true;
      keeps_alive_ = false;
    }
  }
  co_return co_await write_response(response) && keeps_alive_;
}

HttpResponse HttpConnection::refusal(const HttpHandler& handler,
                                     int status,
                                     std::string_view reason,
                                     const HttpRequest* head) {
  HttpResponse response = handler.refuse(status, reason, head);
  response.status = status;
  return response;
}

asio::awaitable<void> HttpConnection::refuse(int status,
                                             std::string_view reason,
                                             const HttpRequest* head) {
  clear_deadline();
  is_timed_out_ = false;
  keeps_alive_ = false;
  const HttpResponse response = refusal(shared_.handler, status, reason, head);
  co_await write_response(response);
}

}  // namespace millrace

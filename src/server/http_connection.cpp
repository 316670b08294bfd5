#include "server/http_connection.h"

#include <fmt/format.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <exception>
#include <utility>

#include "base/log.h"
#include "server/http_message.h"

namespace millrace {
namespace {

namespace http = boost::beast::http;

constexpr size_t kReadBytes = 64 * 1024;
// What a client may send behind a request that is being answered. More is dropped, and the
// connection closed after the answer.
constexpr size_t kPipelinedBytes = 64 * 1024;
constexpr std::chrono::milliseconds kLinger{2'000};
// After a body of this size what it has left in the allocator goes back to the system.
constexpr size_t kTrimBytes = size_t{1} << 20;
constexpr std::string_view kTooManyBodies =
    "too many large bodies are being read at once: try again later";
constexpr std::string_view kInternalError = "internal error";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// After this time of silence a peer is asked whether it is still there: one that vanished without a
// word, or that went away half-closed, is noticed within a minute however long its answer takes.
constexpr int kKeepaliveSeconds = 30;
constexpr int kKeepaliveProbeSeconds = 10;
constexpr int kKeepaliveProbes = 3;

void enable_keepalive(int descriptor) {
  const auto set = [descriptor](int level, int name, int value) {
    ::setsockopt(descriptor, level, name, &value, sizeof(value));  // at worst it stays off
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

HttpRequest without_body(const HttpRequest& request) {
  return {request.method, request.path, request.query, request.headers, "", request.received};
}

}  // namespace

HttpConnection::HttpConnection(tcp::socket socket,
                               IoThread& thread,
                               HttpShared& shared,
                               std::atomic<int>& counter)
    : socket_(std::move(socket)),
      thread_(thread),
      shared_(shared),
      counter_(counter),
      deadline_(thread.context),
      wake_timer_(thread.context) {
  thread_.connections.insert(this);
  SystemError ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
  enable_keepalive(socket_.native_handle());
}

HttpConnection::~HttpConnection() {
  if (slot_) {
    slot_->target = nullptr;
  }
  thread_.connections.erase(this);
  counter_.fetch_sub(1);
}

asio::awaitable<void> HttpConnection::run() {
  try {
    for (bool is_open = true; is_open;) {
      is_open = co_await serve_one();
    }
    co_await close();
  } catch (const std::exception& error) {
    log_error("[http] connection dropped: {}", error.what());
  }
}

// Reads one request and writes its answer; false when the connection is to be closed.
asio::awaitable<bool> HttpConnection::serve_one() {
  is_http_1_0_ = is_head_request_ = false;  // of the request before: what is refused may be neither
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(shared_.options.max_header_bytes));
  parser.body_limit(shared_.options.max_body_bytes);
  if (!co_await read_head(parser)) {
    co_return false;
  }
  const auto& message = parser.get();
  keeps_alive_ = message.keep_alive() && !shared_.is_draining.load();
  is_http_1_0_ = message.version() < 11;
  is_head_request_ = message.method() == http::verb::head;
  auto read = to_request(message);
  if (!read) {
    has_unread_input_ = true;
    co_await refuse(400, read.error().message, nullptr);
    co_return false;
  }
  HttpRequest request = std::move(*read);

  // Where a body of another coding ends is unknown, so what follows must not be read as a request.
  const std::string* coding = request.header("transfer-encoding");
  if (coding != nullptr && !equals_ignoring_case(*coding, "chunked")) {
    co_return co_await refuse_body(request, 501, "the only transfer coding read here is chunked");
  }
  if (const auto refusal = shared_.handler.admit(request)) {
    co_return co_await answer_refusal(parser, request, *refusal);
  }
  BodyBudget::Share share(shared_.bodies);
  if (!shared_.bodies.has_room_for(parser.content_length().value_or(0))) {
    co_return co_await refuse_body(request, 503, kTooManyBodies);
  }
  const std::string* expect = request.header("expect");
  if (expect != nullptr && !is_http_1_0_ && !parser.is_done()) {
    if (!equals_ignoring_case(*expect, "100-continue")) {
      co_return co_await refuse_body(request, 417, "only the expectation 100-continue can be met");
    }
    if (!co_await write(kContinue)) {
      co_return false;
    }
  }
  if (!co_await read_body(parser, request, share)) {
    if (share.bytes() >= kTrimBytes) {
      asio::post(*shared_.helper, [] { ::malloc_trim(0); });
    }
    co_return false;
  }
  request.body = std::move(parser.get().body());
  request.received = Clock::now();
  shared_.n_running.fetch_add(1);
  const bool is_open = co_await handle(std::move(request), std::move(share));
  shared_.n_running.fetch_sub(1);
  co_return is_open;
}

asio::awaitable<bool> HttpConnection::read_head(Parser& parser) {
  if (buffer_.size() == 0) {
    is_idle_ = true;
    idle_since_ = std::chrono::steady_clock::now();
    set_deadline(shared_.options.idle_timeout);
    const bool has_bytes = co_await fill();
    is_idle_ = false;
    if (!has_bytes) {
      co_return false;
    }
    has_served_ = true;
  }
  set_deadline(shared_.options.header_timeout);
  const size_t limit = shared_.options.max_header_bytes;
  size_t n_used = skip_line_ends();
  SystemError error = http::error::need_more;
  while (true) {
    if (buffer_.size() > 0) {
      const size_t used = parser.put(buffer_.data(), error);
      buffer_.consume(used);
      n_used += used;
    }
    if (parser.is_header_done()) {
      break;
    }
    // The parser's own limit begins anew with every call, so all bytes are counted here too.
    if (n_used + buffer_.size() > limit) {
      error = http::error::header_limit;
    }
    if (error && error != http::error::need_more) {
      co_return co_await refuse_head(parser, error);
    }
    if (!co_await fill()) {
      if (is_timed_out_) {
        co_return co_await refuse_head(parser, 408, "the headers took too long to arrive");
      }
      co_return false;
    }
    if (!parser.got_some()) {
      n_used += skip_line_ends();
    }
  }
  clear_deadline();
  if (n_used > limit) {
    error = http::error::header_limit;
  }
  if (error && error != http::error::need_more) {  // or a Content-Length above the limit
    co_return co_await refuse_head(parser, error);
  }
  co_return true;
}

// Some clients end a body with a line end that belongs to nothing (RFC 9112, 2.2).
size_t HttpConnection::skip_line_ends() {
  const auto bytes = buffer_.data();
  const std::string_view text(static_cast<const char*>(bytes.data()), bytes.size());
  const size_t n = std::min(text.find_first_not_of("\r\n"), text.size());
  buffer_.consume(n);
  return n;
}

asio::awaitable<bool> HttpConnection::read_body(Parser& parser,
                                                const HttpRequest& head,
                                                BodyBudget::Share& share) {
  parser.eager(true);
  set_deadline(shared_.options.body_timeout);
  while (!parser.is_done()) {
    SystemError error;
    const size_t used = parser.put(buffer_.data(), error);
    buffer_.consume(used);
    if (error && error != http::error::need_more) {
      co_return co_await refuse_body(head, error);
    }
    // The parser reserves a declared length, which takes no memory until bytes are written there.
    const std::string& body = parser.get().body();
    if (!share.grow_to(parser.content_length() ? body.size() : body.capacity())) {
      co_return co_await refuse_body(head, 503, kTooManyBodies);
    }
    // Only the line before a chunk and the trailers behind the last one are not consumed in parts.
    if (used == 0 && buffer_.size() > shared_.options.max_header_bytes) {
      co_return co_await refuse_body(head, 400, "a chunk's header, or the trailers, are too long");
    }
    if (!parser.is_done() && (used == 0 || buffer_.size() == 0) && !co_await fill()) {
      if (is_timed_out_) {
        co_return co_await refuse_body(head, 408, "the body took too long to arrive");
      }
      co_return false;
    }
  }
  clear_deadline();
  co_return true;
}

asio::awaitable<bool> HttpConnection::handle(HttpRequest request, BodyBudget::Share share) {
  slot_ = std::make_shared<ConnectionWakeQueue::Slot>();
  slot_->target = this;
  is_woken_ = false;
  is_client_gone_ = false;
  is_probe_due_ = false;
  has_begun_answer_ = false;
  bool is_open = false;
  bool has_failed = false;
  const auto head = std::make_shared<const HttpRequest>(without_body(request));
  try {
    Reply reply = co_await call_handler(std::move(request), head, std::move(share));
    while (reply.decide) {
      is_woken_ = false;
      if (auto decided = reply.decide()) {
        reply = std::move(*decided);
      } else {
        co_await wait_for_wake();
      }
    }
    if (reply.source) {
      is_open = co_await answer_from_source(reply);
    } else {
      is_open = co_await write_response(reply.response) && keeps_alive_;
    }
  } catch (const std::exception& error) {
    log_error("[http] handler failed: {}", error.what());
    has_failed = true;
  }
  slot_->target = nullptr;
  slot_.reset();
  if (has_failed) {
    stop_watching();
    if (!has_begun_answer_ && !is_client_gone_) {
      co_await refuse(500, kInternalError, head.get());
    }
    co_return false;
  }
  co_return is_open;
}

asio::awaitable<Reply> HttpConnection::call_handler(HttpRequest request,
                                                    std::shared_ptr<const HttpRequest> head,
                                                    BodyBudget::Share share) {
  const Waker wake = [queue = thread_.wakes, slot = slot_] { queue->push(slot); };
  const auto call = [&handler = shared_.handler, head, wake](HttpRequest moved) {
    try {
      return handler.handle(std::move(moved), wake);
    } catch (const std::exception& error) {
      log_error("[http] handler failed: {}", error.what());
      return Reply{refusal(handler, 500, kInternalError, head.get()), nullptr, false};
    }
  };
  if (request.body.size() < shared_.options.large_body_bytes) {
    co_return call(std::move(request));
  }
  struct Task {
    HttpRequest request;
    BodyBudget::Share share;
    Reply reply;
    std::atomic<bool> is_done{false};
  };
  const auto task = std::make_shared<Task>();
  task->request = std::move(request);
  task->share = std::move(share);
  asio::post(*shared_.helper, [task, call, wake] {
    task->reply = call(std::move(task->request));
    if (task->share.bytes() >= kTrimBytes) {
      ::malloc_trim(0);
    }
    task->share.release();
    task->is_done.store(true, std::memory_order_release);
    wake();
  });
  while (true) {
    is_woken_ = false;  // an earlier wake-up may have been for something else
    if (task->is_done.load(std::memory_order_acquire)) {
      break;
    }
    co_await wait_for_wake();
  }
  co_return std::move(task->reply);
}

asio::awaitable<bool> HttpConnection::answer_from_source(Reply& reply) {
  is_probe_due_ = is_half_closed_;
  watch_client();
  bool is_ok = true;
  if (reply.streams) {
    const char* framing = is_http_1_0_ ? "" : "Transfer-Encoding: chunked\r\n";
    keeps_alive_ = keeps_alive_ && !is_http_1_0_;
    has_begun_answer_ = true;
    is_ok = co_await write(head_of(reply.response, framing));
    reply.response.body.clear();
  }
  while (is_ok && !is_client_gone_) {
    is_woken_ = false;
    const bool is_finished = reply.source->pull(reply.response) == ReplySource::Progress::kFinished;
    if (reply.streams) {
      std::string bytes = std::exchange(reply.response.body, {});
      if (!is_http_1_0_) {
        bytes = bytes.empty() ? bytes : fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
        bytes += is_finished ? "0\r\n\r\n" : "";
      }
      is_ok = bytes.empty() || co_await write(bytes);
    } else if (is_finished) {
      is_ok = co_await write_response(reply.response);
    }
    if (is_finished) {
      stop_watching();
      co_return is_ok && !is_client_gone_ && keeps_alive_;
    }
    if (is_ok && !is_client_gone_) {
      co_await wait_for_wake();
    }
    if (is_ok && std::exchange(is_probe_due_, false)) {
      is_ok = co_await write(probe(reply.streams));
    }
  }
  reply.source.reset();  // cancels
  stop_watching();
  co_return false;
}

// A client that has closed its sending side may be waiting for its answer or be gone: the two look
// alike until something is sent, which the kernel of one that is gone refuses. So it is sent what
// means nothing: an interim response, or a leading zero of the size of the next chunk. HTTP/1.0 has
// nothing of the kind; there closing is leaving.
std::string_view HttpConnection::probe(bool streams) const {
  return streams ? "0" : kContinue;
}

asio::awaitable<void> HttpConnection::wait_for_wake() {
  while (!is_woken_ && !is_client_gone_ && !is_probe_due_) {
    wake_timer_.expires_at(asio::steady_timer::time_point::max());
    SystemError ignored;
    co_await wake_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void HttpConnection::wake() {
  is_woken_ = true;
  wake_timer_.cancel();
}

void HttpConnection::close_if_idle(std::chrono::milliseconds at_least) {
  const bool may_close = has_served_ || at_least.count() > 0;
  if (is_idle_ && may_close && std::chrono::steady_clock::now() - idle_since_ >= at_least) {
    closes_when_idle_ = true;
    SystemError ignored;
    socket_.cancel(ignored);
  }
}

// Waits for more bytes; false when the client has closed, the deadline passed or something broke.
asio::awaitable<bool> HttpConnection::fill() {
  while (true) {
    SystemError error;
    const size_t n = socket_.read_some(buffer_.prepare(kReadBytes), error);
    if (!error) {
      buffer_.commit(n);
      co_return true;
    }
    if (error != asio::error::would_block) {
      co_return false;
    }
    if (is_idle_ && (closes_when_idle_ || (has_served_ && shared_.is_draining.load()))) {
      co_return false;
    }
    SystemError wait_error;
    co_await socket_.async_wait(tcp::socket::wait_read,
                                asio::redirect_error(asio::use_awaitable, wait_error));
    if (wait_error) {
      co_return false;
    }
  }
}

asio::awaitable<bool> HttpConnection::write(std::string_view bytes) {
  bool has_deadline = false;
  while (!bytes.empty()) {
    SystemError error;
    const size_t n = socket_.write_some(asio::buffer(bytes.data(), bytes.size()), error);
    if (!error) {
      bytes.remove_prefix(n);
      continue;
    }
    if (error != asio::error::would_block) {
      co_return false;
    }
    set_deadline(shared_.options.write_timeout);
    has_deadline = true;
    SystemError wait_error;
    co_await socket_.async_wait(tcp::socket::wait_write,
                                asio::redirect_error(asio::use_awaitable, wait_error));
    if (wait_error) {
      co_return false;
    }
  }
  if (has_deadline) {
    clear_deadline();
  }
  co_return true;
}

std::string HttpConnection::head_of(const HttpResponse& response, std::string_view framing) const {
  std::string_view connection = "Connection: close\r\n";
  if (keeps_alive_) {
    connection = is_http_1_0_ ? "Connection: keep-alive\r\n" : "";
  }
  return head_text(response, framing, connection);
}

asio::awaitable<bool> HttpConnection::write_response(const HttpResponse& response) {
  has_begun_answer_ = true;
  std::string framing;
  if (response.status != 204) {
    framing = fmt::format("Content-Length: {}\r\n", response.body.size());
  }
  std::string bytes = head_of(response, framing);
  if (!is_head_request_) {
    bytes += response.body;
  }
  co_return co_await write(bytes);
}

// Sends what is queued. Bytes that nobody read would turn the close into a reset, and the client
// might lose the answer: so they are read and dropped for a short while.
asio::awaitable<void> HttpConnection::close() {
  SystemError ignored;
  const bool has_unread = has_unread_input_ || socket_.available(ignored) > 0;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  if (has_unread) {
    set_deadline(kLinger);
    while (co_await fill()) {
      buffer_.consume(buffer_.size());
    }
  }
  clear_deadline();
  socket_.close(ignored);
}

void HttpConnection::set_deadline(std::chrono::milliseconds limit) {
  is_timed_out_ = false;
  deadline_.expires_after(limit);
  deadline_.async_wait([self = weak_from_this()](const SystemError& error) {
    const auto connection = self.lock();
    if (!error && connection &&
        connection->deadline_.expiry() <= std::chrono::steady_clock::now()) {
      connection->is_timed_out_ = true;
      SystemError ignored;
      connection->socket_.cancel(ignored);
    }
  });
}

void HttpConnection::clear_deadline() {
  deadline_.expires_at(asio::steady_timer::time_point::max());
}

// While an answer is made nothing else reads the socket: a watcher takes in what the client sends
// and notices when it closes.
void HttpConnection::watch_client() {
  const uint64_t number = ++watch_number_;
  // Behind the end of what the client sends there is only the reset of one that is gone.
  const auto event = is_half_closed_ ? tcp::socket::wait_error : tcp::socket::wait_read;
  socket_.async_wait(event, [self = shared_from_this(), number](const SystemError& error) {
    if (!error && number == self->watch_number_) {
      self->look_at_client();
    }
  });
}

void HttpConnection::look_at_client() {
  SystemError error;
  const size_t n = socket_.read_some(buffer_.prepare(kReadBytes), error);
  if (!error) {
    buffer_.commit(n);
    if (drops_input_ || buffer_.size() > kPipelinedBytes) {
      buffer_.consume(buffer_.size());
      drops_input_ = true;
      keeps_alive_ = false;
      has_unread_input_ = true;
    }
  } else if (error == asio::error::eof && !is_half_closed_ && !is_http_1_0_) {
    is_half_closed_ = true;
    is_probe_due_ = true;
    wake_timer_.cancel();
  } else if (error != asio::error::would_block) {
    is_client_gone_ = true;
    wake_timer_.cancel();
    return;
  }
  watch_client();
}

void HttpConnection::stop_watching() {
  ++watch_number_;
  SystemError ignored;
  socket_.cancel(ignored);
}

}  // namespace millrace

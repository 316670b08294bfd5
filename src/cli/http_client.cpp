#include "cli/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "server/http.h"

namespace millrace {
namespace {

constexpr size_t kMaxHeadBytes = 64 * 1024;

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

enum class Wait { kReady, kTimedOut, kStopped };

// Until the socket is readable or writable; being stopped comes first.
Wait wait_for(const Socket& socket, short events, const ClientRequest& request) {
  const TimePoint end = Clock::now() + request.timeout;
  std::array<pollfd, 2> waiting{pollfd{socket.descriptor(), events, 0},
                                pollfd{request.stop_descriptor, POLLIN, 0}};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    const int n_ready =
        ::poll(waiting.data(), waiting.size(), static_cast<int>(std::max<int64_t>(left, 0)));
    if (n_ready < 0 && errno == EINTR) {
      continue;
    }
    if (waiting[1].revents != 0) {
      return Wait::kStopped;
    }
    return n_ready == 0 ? Wait::kTimedOut : Wait::kReady;
  }
}

tl::unexpected<Error> stopped() {
  return fail(ErrorCode::kCancelled, "stopped");
}

Result<Socket> connect_to(const Url& url, const ClientRequest& request) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
      error != 0) {
    const char* reason = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
    return fail(ErrorCode::kIo, "{}: {}", url.host, reason);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  int error = 0;
  bool is_ours = false;  // the fault: this process may have no more sockets
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    is_ours = socket.descriptor() < 0;
    if (is_ours) {
      error = errno;
      continue;
    }
    const int on = 1;
    ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    error = 0;
    if (::connect(socket.descriptor(), address->ai_addr, address->ai_addrlen) != 0) {
      error = errno;
    }
    if (error == EINPROGRESS) {
      const Wait wait = wait_for(socket, POLLOUT, request);
      if (wait == Wait::kStopped) {
        return stopped();
      }
      error = ETIMEDOUT;
      socklen_t size = sizeof(error);
      if (wait == Wait::kReady) {
        ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) {
      return socket;
    }
  }
  return fail(ErrorCode::kIo,
              "cannot connect to {}: {}{}",
              url.authority(),
              std::strerror(error),
              is_ours ? "" : " (is the server running?)");
}

Result<void> send_all(const Socket& socket, std::string_view bytes, const ClientRequest& request) {
  while (!bytes.empty()) {
    const Wait wait = wait_for(socket, POLLOUT, request);
    if (wait == Wait::kStopped) {
      return stopped();
    }
    if (wait == Wait::kTimedOut) {
      return fail(
          ErrorCode::kIo, "the server took none of the request for {} s", request.timeout.count());
    }
    const ssize_t n = ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
      continue;
    }
    if (n <= 0) {
      return fail(ErrorCode::kIo, "the server closed the connection while the request was sent");
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

std::string message_of(const Url& url, const ClientRequest& request) {
  std::string text = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
                                 request.method,
                                 url.path,
                                 request.path,
                                 url.authority());
  if (!request.api_key.empty()) {
    text += fmt::format("Authorization: Bearer {}\r\n", request.api_key);
  }
  if (!request.body.empty()) {
    text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n",
                        request.body.size());
  }
  return text + "\r\n" + request.body;
}

struct Head {
  int status = 0;
  BodyDecoder decoder;
};

// head: the lines up to the empty one.
Result<Head> parse_head(std::string_view head) {
  Head parsed;
  if (!head.starts_with("HTTP/1.") || head.size() < 12 || head[8] != ' ' ||
      std::from_chars(head.data() + 9, head.data() + 12, parsed.status).ptr != head.data() + 12) {
    return fail(ErrorCode::kIo, "the server did not answer in HTTP/1.1");
  }
  auto framing = BodyDecoder::Framing::kUntilClose;
  uint64_t length = 0;
  for (size_t at = head.find("\r\n"); at != std::string_view::npos && at + 2 < head.size();) {
    const size_t end = head.find("\r\n", at + 2);
    const std::string_view line = head.substr(at + 2, end - at - 2);
    at = end;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) {
      continue;
    }
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    value = value.substr(0, value.find_last_not_of(" \t") + 1);
    if (equals_ignoring_case(name, "transfer-encoding") && equals_ignoring_case(value, "chunked")) {
      framing = BodyDecoder::Framing::kChunked;
    } else if (equals_ignoring_case(name, "content-length") &&
               framing != BodyDecoder::Framing::kChunked) {
      framing = BodyDecoder::Framing::kLength;
      const auto [number_end, error] =
          std::from_chars(value.data(), value.data() + value.size(), length);
      if (error != std::errc{} || number_end != value.data() + value.size()) {
        return fail(ErrorCode::kIo, "the server sent a Content-Length that is not a number");
      }
    }
  }
  parsed.decoder = BodyDecoder(framing, length);
  return parsed;
}

bool is_host_name(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  });
}

bool is_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port > 0;
}

}  // namespace

std::string printable_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(),
      line.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; },
      ' ');
  return line;
}

Result<Url> parse_url(std::string_view text) {
  const auto refuse = [whole = text](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} (expected http://HOST:PORT/PATH, as http://127.0.0.1:8080; port and path "
                "may be left out)",
                printable_line(whole),
                why);
  };
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; })) {
    return refuse("a URL has printable ASCII only, and no spaces");
  }
  if (const size_t end = text.find("://"); end != std::string_view::npos) {
    if (equals_ignoring_case(text.substr(0, end), "https")) {
      return fail(ErrorCode::kUnsupported, "{}: https is not supported, only http", text);
    }
    if (!equals_ignoring_case(text.substr(0, end), "http")) {
      return refuse("the scheme is not http");
    }
    text.remove_prefix(end + 3);
  }
  if (text.find_first_of("?#") != std::string_view::npos) {
    return refuse("a server's address has no ? and no #");
  }
  Url url;
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    url.path = text.substr(slash);
    while (url.path.ends_with('/')) {
      url.path.pop_back();
    }
    text = text.substr(0, slash);
  }
  if (text.find('@') != std::string_view::npos) {
    return refuse("a user name is not supported");
  }
  const size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  const size_t colon = text.find(':', std::min(bracket, text.size()));
  const std::string_view host = text.substr(0, colon);
  if (text.starts_with('[')) {
    url.host = host.substr(1, bracket - 1);
    std::array<unsigned char, 16> address;
    if (!host.ends_with(']') || ::inet_pton(AF_INET6, url.host.c_str(), address.data()) != 1) {
      return refuse("[ and ] hold an IPv6 address, and nothing but a port comes behind");
    }
  } else {
    url.host = host;
    if (std::count(text.begin(), text.end(), ':') > 1) {
      return refuse("more than one colon (an IPv6 address is written in [ ])");
    }
    if (!is_host_name(host)) {
      return refuse(host.empty() ? "the host is missing"
                                 : "the host is neither a name nor an address");
    }
  }
  if (colon != std::string_view::npos) {
    url.port = text.substr(colon + 1);
    if (!is_port(url.port)) {
      return refuse("the port is not a number from 1 to 65535");
    }
  }
  return url;
}

std::string Url::authority() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

BodyDecoder::BodyDecoder(Framing framing, uint64_t length)
    : framing_(framing),
      n_left_(framing == Framing::kLength ? length : 0),
      is_complete_(framing == Framing::kLength && length == 0) {}

bool BodyDecoder::feed(std::string_view bytes, std::string& out) {
  if (framing_ == Framing::kUntilClose) {
    out += bytes;
    return true;
  }
  if (framing_ == Framing::kLength) {
    const size_t n = std::min<uint64_t>(bytes.size(), n_left_);
    out += bytes.substr(0, n);
    n_left_ -= n;
    is_complete_ = n_left_ == 0;
    return true;
  }
  for (const char byte : bytes) {
    if (is_complete_) {
      break;
    }
    if (!feed_chunked(byte, out)) {
      return false;
    }
  }
  return true;
}

bool BodyDecoder::feed_chunked(char byte, std::string& out) {
  if (state_ == State::kData) {
    out += byte;
    if (--n_left_ == 0) {
      state_ = State::kDataEnd;
    }
    return true;
  }
  if (byte != '\n') {
    line_ += byte;
    return line_.size() < kMaxHeadBytes;
  }
  const std::string line = std::exchange(line_, {});
  const std::string_view content = std::string_view(line).substr(0, line.find('\r'));
  switch (state_) {
    case State::kSize: {
      if (std::from_chars(content.data(), content.data() + content.size(), n_left_, 16).ec !=
          std::errc{}) {
        return false;
      }
      state_ = n_left_ == 0 ? State::kTrailer : State::kData;
      return true;
    }
    case State::kDataEnd:
      state_ = State::kSize;
      return content.empty();
    case State::kTrailer:
      is_complete_ = content.empty();
      return true;
    case State::kData:
      break;
  }
  return false;
}

void SseReader::feed(std::string_view bytes,
                     const std::function<void(std::string_view data)>& on_event) {
  for (const char byte : bytes) {
    if (byte != '\n') {
      line_ += byte;
      continue;
    }
    if (line_.ends_with('\r')) {
      line_.pop_back();
    }
    if (line_.empty()) {
      if (has_data_) {
        on_event(data_);
      }
      data_.clear();
      has_data_ = false;
    } else if (line_.starts_with("data:")) {
      const size_t skip = line_.starts_with("data: ") ? 6 : 5;
      data_ += has_data_ ? "\n" : "";
      data_.append(line_, skip);
      has_data_ = true;
    }
    line_.clear();
  }
}

Result<int> exchange(const Url& url,
                     const ClientRequest& request,
                     const std::function<void(std::string_view bytes)>& on_body) {
  const auto socket = connect_to(url, request);
  if (!socket) {
    return propagate(socket);
  }
  if (auto sent = send_all(*socket, message_of(url, request), request); !sent) {
    return propagate(sent);
  }
  std::string head;
  Head parsed;
  std::array<char, 16 * 1024> bytes;
  std::string body;
  while (true) {
    const Wait wait = wait_for(*socket, POLLIN, request);
    if (wait == Wait::kStopped) {
      return stopped();
    }
    if (wait == Wait::kTimedOut) {
      return fail(ErrorCode::kIo, "nothing came for {} s", request.timeout.count());
    }
    const ssize_t n = ::recv(socket->descriptor(), bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EAGAIN) {
      continue;
    }
    if (n < 0) {
      return fail(ErrorCode::kIo, "{}", std::strerror(errno));
    }
    std::string_view received(bytes.data(), static_cast<size_t>(n));
    if (parsed.status == 0) {
      const size_t searched = head.size() < 3 ? 0 : head.size() - 3;
      head += received;
      size_t end = head.find("\r\n\r\n", searched);
      while (end != std::string::npos && head.starts_with("HTTP/1.1 1")) {  // interim answers
        head.erase(0, end + 4);
        end = head.find("\r\n\r\n");
      }
      if (end == std::string::npos) {
        if (n == 0 || head.size() > kMaxHeadBytes) {
          return fail(ErrorCode::kIo, "the server closed the connection without an answer");
        }
        continue;
      }
      auto result = parse_head(std::string_view(head).substr(0, end + 2));
      if (!result) {
        return propagate(result);
      }
      parsed = std::move(*result);
      received = std::string_view(head).substr(end + 4);
    }
    body.clear();
    if (!parsed.decoder.feed(received, body)) {
      return fail(ErrorCode::kIo, "the chunks of the answer are broken");
    }
    if (!body.empty()) {
      on_body(body);
    }
    if (parsed.decoder.is_complete() || (n == 0 && parsed.decoder.ends_with_close())) {
      return parsed.status;
    }
    if (n == 0) {
      return fail(ErrorCode::kIo, "the answer broke off");
    }
  }
}

}  // namespace millrace

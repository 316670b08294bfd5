#pragma once
// For tests: a loopback socket that sends exactly the bytes it is told to and shows what came back.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace millrace {

// Whether the condition is met within ten seconds.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class RawClient {
 public:
  explicit RawClient(uint16_t port, std::string_view bytes = "")
      : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    send(bytes);
  }
  ~RawClient() { close(); }
  RawClient(RawClient&& other) noexcept
      : received(std::move(other.received)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        is_open_(other.is_open_),
        is_at_end_(other.is_at_end_) {}
  RawClient& operator=(RawClient&&) = delete;

  bool is_open() const { return is_open_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void shutdown_send() { ::shutdown(descriptor_, SHUT_WR); }
  void set_receive_buffer(int bytes) {
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  void close() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
      descriptor_ = -1;
    }
  }

  // Reads until the text received so far contains `mark` (true), or the peer closes or 10 s pass.
  bool read_until(std::string_view mark) {
    while (received.find(mark) == std::string::npos) {
      if (!read_some(std::chrono::seconds(10))) {
        return false;
      }
    }
    return true;
  }
  // Reads until the peer closes; false if it has not after 10 s.
  bool read_to_end() {
    while (read_some(std::chrono::seconds(10))) {
    }
    return is_at_end_;
  }
  bool read_some(std::chrono::milliseconds limit) {
    pollfd waiting{descriptor_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(limit.count())) <= 0) {
      return false;
    }
    std::array<char, 16384> bytes;
    const ssize_t n = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (n <= 0) {
      is_at_end_ = true;
      return false;
    }
    received.append(bytes.data(), static_cast<size_t>(n));
    return true;
  }

  // Of the first answer received; 0 when there is none.
  int status() const {
    constexpr std::string_view kVersion = "HTTP/1.1 ";
    return received.starts_with(kVersion) ? std::atoi(received.c_str() + kVersion.size()) : 0;
  }
  bool has(std::string_view text) const { return received.find(text) != std::string::npos; }
  // Each behind the one before.
  bool has_in_order(std::initializer_list<std::string_view> texts) const {
    size_t at = 0;
    for (const std::string_view text : texts) {
      at = received.find(text, at);
      if (at == std::string::npos) {
        return false;
      }
    }
    return true;
  }

  std::string received;

 private:
  int descriptor_;
  bool is_open_ = false;
  bool is_at_end_ = false;
};

}  // namespace millrace

#pragma once
// For tests: a real Redis server on a free loopback port, and ways to mistreat it.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/response_cache/redis_link.h"

namespace millrace {

inline constexpr const char* kRedisProgram = "/usr/bin/redis-server";

inline bool has_redis() {
  return std::filesystem::exists(kRedisProgram);
}

// At most ten seconds.
inline bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

// More than any server that is there needs.
inline RedisPatience patience() {
  return {.silence = std::chrono::seconds(20), .total = std::chrono::seconds(20)};
}

// Listens on a free port.
inline int loopback_socket(int& port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(descriptor, 1), 0);
  EXPECT_EQ(::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port = ntohs(address.sin_port);
  return descriptor;
}

class RedisServer {
 public:
  explicit RedisServer(std::string password = "") : password_(std::move(password)) {
    port_ = free_port();
    start();
  }
  ~RedisServer() { kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  RedisAddress address() const {
    return {.host = "127.0.0.1", .port = port_, .database = 3, .password = password_};
  }

  void start() {
    std::vector<std::string> words = {kRedisProgram,
                                      "--bind",
                                      "127.0.0.1",
                                      "--port",
                                      std::to_string(port_),
                                      "--save",
                                      "",
                                      "--appendonly",
                                      "no"};
    if (!password_.empty()) {
      words.insert(words.end(), {"--requirepass", password_});
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive the test
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(nowhere, STDOUT_FILENO);
      ::dup2(nowhere, STDERR_FILENO);
      ::execv(kRedisProgram, arguments.data());
      ::_exit(127);
    }
    RedisLink link(address());
    EXPECT_TRUE(wait_until([&] { return link.open(patience()).has_value(); }));
  }
  void kill() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
      process_ = 0;
    }
  }
  void freeze() { ::kill(process_, SIGSTOP); }
  void thaw() { ::kill(process_, SIGCONT); }

  // What Redis says to a command.
  std::string ask(const RedisCommand& command) const {
    RedisLink link(address());
    EXPECT_TRUE(link.open(patience()));
    const auto replies = link.exchange({command}, patience());
    EXPECT_TRUE(replies);
    return replies ? replies->front().text : "";
  }
  int n_keys() const {
    const std::string info = ask({"INFO", "keyspace"});
    const size_t at = info.find("db3:keys=");
    return at == std::string::npos ? 0 : std::stoi(info.substr(at + 9));
  }

 private:
  static int free_port() {
    int port = 0;
    ::close(loopback_socket(port));
    return port;
  }

  const std::string password_;
  int port_ = 0;
  pid_t process_ = 0;
};

// Answers SELECT like Redis and all else with what the test says. Takes one connection.
class FakeRedis {
 public:
  explicit FakeRedis(std::function<void(int connection)> answer)
      : listening_(loopback_socket(port_)), thread_([this, answer = std::move(answer)] {
          const int connection = ::accept(listening_, nullptr, nullptr);
          if (connection >= 0 && receive(connection)) {
            send(connection, "+OK\r\n");
            if (receive(connection)) {
              answer(connection);
            }
            receive(connection);  // until the other end has closed
          }
          ::close(connection);
        }) {}
  ~FakeRedis() {
    ::shutdown(listening_, SHUT_RDWR);
    thread_.join();
    ::close(listening_);
  }
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  RedisAddress address() const { return {.host = "127.0.0.1", .port = port_}; }

  // False: the other end has closed.
  static bool send(int connection, std::string_view bytes) {
    return ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
  }

 private:
  static bool receive(int connection) {
    char bytes[4096];
    return ::recv(connection, bytes, sizeof(bytes), 0) > 0;
  }

  int port_ = 0;
  const int listening_;
  std::thread thread_;
};

}  // namespace millrace

#pragma once
// One connection to a Redis server (redis://, without TLS). One thread. Hides hiredis.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace {

struct RedisAddress {
  std::string host;
  int port = 6379;
  int database = 0;
  std::string password = {};  // empty: none

  std::string name() const;  // "redis://host:port/0", never with the password
};

// "redis://host", "redis://host:6379", "redis://[::1]:6379/2". A user or password in it is refused:
// other processes can read a command line.
Result<RedisAddress> parse_redis_url(std::string_view url);

using RedisCommand = std::vector<std::string>;

struct RedisReply {
  bool is_error = false;
  std::string text;  // of a string, a status or an error; otherwise empty
};

// How long to wait for a server.
struct RedisPatience {
  std::chrono::milliseconds silence;  // until the next byte comes or goes
  std::chrono::milliseconds total;
  std::function<bool()> gives_up = {};  // asked all the while; empty: never
};

class RedisLink {
 public:
  explicit RedisLink(RedisAddress address);
  ~RedisLink();
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;

  const RedisAddress& address() const { return address_; }
  bool is_open() const;

  // Opens the connection, with password and database. Looking up a name may take longer than one
  // has patience.
  Result<void> open(const RedisPatience& patience);
  void close();

  // Sends all commands at once and waits for all replies. An error closes the connection.
  Result<std::vector<RedisReply>> exchange(const std::vector<RedisCommand>& commands,
                                           const RedisPatience& patience);
  // The same, telling each reply (to the command of that index) as it comes.
  using OnReply = std::function<void(size_t index, RedisReply reply)>;
  Result<void> exchange(const std::vector<RedisCommand>& commands,
                        const RedisPatience& patience,
                        const OnReply& on_reply);

 private:
  struct Connection;

  const RedisAddress address_;
  std::unique_ptr<Connection> connection_;  // null: closed
};

}  // namespace millrace

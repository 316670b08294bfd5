#include "server/response_cache/redis_link.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/clock.h"

namespace millrace {
namespace {

constexpr int kMaxDatabase = 1 << 20;

// All of the text as a number from low to high, else -1.
int parse_number(std::string_view text, int low, int high) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number && value >= low && value <= high ? value : -1;
}

// True when the descriptor is ready for one of the events before the deadline.
bool wait_for(int descriptor, short events, TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd waiting{descriptor, events, 0};
  return left > 0 && ::poll(&waiting, 1, static_cast<int>(left)) > 0;
}

RedisReply take_reply(const redisReply& reply) {
  return {.is_error = reply.type == REDIS_REPLY_ERROR,
          .text = reply.str != nullptr ? std::string(reply.str, reply.len) : ""};
}

}  // namespace

std::string RedisAddress::name() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format(
      "redis://{}{}{}:{}/{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port, database);
}

Result<RedisAddress> parse_redis_url(std::string_view url) {
  constexpr std::string_view kScheme = "redis://";
  const auto refuse = [] {
    return fail(ErrorCode::kInvalidArgument,
                "expected redis://HOST, redis://HOST:PORT or redis://HOST:PORT/DATABASE");
  };
  if (url.starts_with("rediss://")) {
    return fail(ErrorCode::kUnsupported, "TLS (rediss://) is not supported, only redis://");
  }
  if (!url.starts_with(kScheme)) {
    return refuse();
  }
  url.remove_prefix(kScheme.size());
  if (url.find('@') != std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument,
                "a password does not belong on a command line, which other processes can read: "
                "--redis-password-file names a file with it");
  }
  RedisAddress address;
  if (const size_t slash = url.find('/'); slash != std::string_view::npos) {
    const std::string_view database = url.substr(slash + 1);
    address.database = database.empty() ? 0 : parse_number(database, 0, kMaxDatabase);
    url = url.substr(0, slash);
  }
  std::string_view port;
  if (url.starts_with('[')) {
    const size_t end = url.find(']');
    if (end == std::string_view::npos) {
      return refuse();
    }
    address.host = url.substr(1, end - 1);
    port = url.substr(end + 1);
  } else {
    const size_t colon = std::min(url.find(':'), url.size());
    address.host = url.substr(0, colon);
    port = url.substr(colon);
  }
  if (!port.empty()) {
    address.port = port[0] == ':' ? parse_number(port.substr(1), 1, 65535) : -1;
  }
  if (address.host.empty() || address.port < 0 || address.database < 0) {
    return refuse();
  }
  return address;
}

struct RedisLink::Connection {
  explicit Connection(redisContext* opened) : context(opened) {}
  ~Connection() {
    if (context != nullptr) {
      redisFree(context);
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::string error() const {
    return context != nullptr && context->err != 0 ? context->errstr : "no connection";
  }

  // Why connecting has failed; empty: it has not.
  std::string connect_error(TimePoint deadline) const {
    if (context == nullptr || context->err != 0) {
      return error();
    }
    if (!wait_for(context->fd, POLLOUT, deadline)) {
      return "no answer";
    }
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(context->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error != 0 ? std::strerror(error) : "";
  }

  // One turn of writing what waits and reading what came.
  bool advance(std::vector<RedisReply>& replies, bool& has_sent, TimePoint deadline) {
    const auto events = static_cast<short>(has_sent ? POLLIN : POLLIN | POLLOUT);
    if (!wait_for(context->fd, events, deadline)) {
      return false;
    }
    int is_done = 0;
    if (!has_sent && redisBufferWrite(context, &is_done) != REDIS_OK) {
      return false;
    }
    has_sent = has_sent || is_done != 0;
    if (redisBufferRead(context) != REDIS_OK) {
      return false;
    }
    void* reply = nullptr;
    while (redisGetReplyFromReader(context, &reply) == REDIS_OK && reply != nullptr) {
      replies.push_back(take_reply(*static_cast<redisReply*>(reply)));
      freeReplyObject(reply);
    }
    return context->err == 0;
  }

  redisContext* context;
};

RedisLink::RedisLink(RedisAddress address) : address_(std::move(address)) {}
RedisLink::~RedisLink() = default;

bool RedisLink::is_open() const {
  return connection_ != nullptr;
}

void RedisLink::close() {
  connection_.reset();
}

Result<void> RedisLink::open(std::chrono::milliseconds limit) {
  const TimePoint deadline = Clock::now() + limit;
  connection_ =
      std::make_unique<Connection>(redisConnectNonBlock(address_.host.c_str(), address_.port));
  if (const std::string reason = connection_->connect_error(deadline); !reason.empty()) {
    close();
    return fail(ErrorCode::kIo, "{}: cannot connect ({})", address_.name(), reason);
  }
  std::vector<RedisCommand> commands;
  if (!address_.password.empty()) {
    commands.push_back({"AUTH", address_.password});
  }
  commands.push_back({"SELECT", std::to_string(address_.database)});
  const auto replies = exchange(commands, limit);
  if (!replies) {
    return propagate(replies);
  }
  for (const RedisReply& reply : *replies) {
    if (reply.is_error) {
      close();
      return fail(ErrorCode::kIo, "{}: {}", address_.name(), reply.text);
    }
  }
  return {};
}

Result<std::vector<RedisReply>> RedisLink::exchange(const std::vector<RedisCommand>& commands,
                                                    std::chrono::milliseconds limit) {
  if (!is_open()) {
    return fail(ErrorCode::kIo, "{}: not connected", address_.name());
  }
  const TimePoint deadline = Clock::now() + limit;
  for (const RedisCommand& command : commands) {
    std::vector<const char*> words;
    std::vector<size_t> sizes;
    for (const std::string& word : command) {
      words.push_back(word.data());
      sizes.push_back(word.size());
    }
    redisAppendCommandArgv(
        connection_->context, static_cast<int>(words.size()), words.data(), sizes.data());
  }
  std::vector<RedisReply> replies;
  bool has_sent = false;
  while (replies.size() < commands.size()) {
    if (!connection_->advance(replies, has_sent, deadline)) {
      const bool is_late = connection_->context->err == 0;
      const std::string reason =
          is_late ? fmt::format("no answer within {} ms", limit.count()) : connection_->error();
      close();
      return fail(ErrorCode::kIo, "{}: {}", address_.name(), reason);
    }
  }
  if (replies.size() > commands.size()) {
    close();
    return fail(ErrorCode::kIo, "{}: more replies than commands", address_.name());
  }
  return replies;
}

}  // namespace millrace

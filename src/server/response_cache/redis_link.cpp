#include "server/response_cache/redis_link.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
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

// A name or an IPv4 address; for brackets, an IPv6 address, perhaps with a zone.
bool is_host(std::string_view text, bool is_in_brackets) {
  const auto is_fit = [&](unsigned char c) {
    const bool is_word = c < 0x80 && std::isalnum(c) != 0;
    return is_word || c == '.' || c == '-' || c == '_' ||
           (is_in_brackets && (c == ':' || c == '%'));
  };
  return !text.empty() && std::ranges::all_of(text, is_fit);
}

// Waits for a socket as long as somebody has patience.
class Wait {
 public:
  explicit Wait(const RedisPatience& patience)
      : patience_(patience), end_(Clock::now() + patience.total) {}

  // True when the descriptor is ready for one of the events; else reason() says why not.
  bool wait_for(int descriptor, short events) {
    const TimePoint silence_end = Clock::now() + patience_.silence;
    while (true) {
      if (patience_.gives_up && patience_.gives_up()) {
        reason_ = "no longer waited for";
        return false;
      }
      const TimePoint now = Clock::now();
      const TimePoint end = std::min(silence_end, end_);
      // What it waits for may be there though the time is over: this thread may have been kept from
      // looking. After the end of all there is one such look: else bytes could come for ever.
      const bool may_look = now < end_ || !std::exchange(has_looked_late_, true);
      if (may_look && is_ready(descriptor, events, std::min(end, now + kSlice) - now)) {
        return true;
      }
      if (now >= end) {
        reason_ = end_ <= silence_end
                      ? fmt::format("no whole answer within {} ms", patience_.total.count())
                      : fmt::format("no answer within {} ms", patience_.silence.count());
        return false;
      }
    }
  }
  const std::string& reason() const { return reason_; }

 private:
  static constexpr std::chrono::milliseconds kSlice{20};  // between two looks at gives_up

  // Looks once when no time is left.
  static bool is_ready(int descriptor, short events, Clock::duration left) {
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd waiting{descriptor, events, 0};
    return ::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(limit, 0))) > 0;
  }

  const RedisPatience& patience_;
  const TimePoint end_;
  bool has_looked_late_ = false;
  std::string reason_;
};

// What Redis says in an error is logged: of a length and of characters that a log can take.
std::string printable(std::string_view text) {
  constexpr size_t kMaxBytes = 200;
  std::string line(text.substr(0, kMaxBytes));
  std::ranges::replace_if(
      line, [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

RedisReply take_reply(const redisReply& reply) {
  const std::string_view text =
      reply.str != nullptr ? std::string_view(reply.str, reply.len) : std::string_view();
  const bool is_error = reply.type == REDIS_REPLY_ERROR;
  return {.is_error = is_error, .text = is_error ? printable(text) : std::string(text)};
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
  const bool is_in_brackets = url.starts_with('[');
  if (is_in_brackets) {
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
  if (!is_host(address.host, is_in_brackets) || address.port < 0 || address.database < 0) {
    return refuse();
  }
  return address;
}

struct RedisLink::Connection {
  explicit Connection(redisContext* opened) : context(opened) {
    if (context != nullptr && context->reader != nullptr) {
      refuse_arrays();
    }
  }
  ~Connection() {
    if (context != nullptr) {
      redisFree(context);
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::string error() const {
    if (has_array) {
      return "an array, which no command asks for";
    }
    return context != nullptr && context->err != 0 ? context->errstr : "no connection";
  }

  // Why connecting has failed; empty: it has not.
  std::string connect_error(Wait& wait) const {
    if (context == nullptr || context->err != 0) {
      return error();
    }
    if (!wait.wait_for(context->fd, POLLOUT)) {
      return wait.reason();
    }
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(context->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error != 0 ? std::strerror(error) : "";
  }

  // Why it has failed; empty: it has not.
  std::string advance_error(Wait& wait) const {
    return context->err != 0 ? error() : wait.reason();
  }

  // One turn of writing what waits and reading what came. False: no more turns.
  bool advance(bool& has_sent, Wait& wait) const {
    const auto events = static_cast<short>(has_sent ? POLLIN : POLLIN | POLLOUT);
    if (!wait.wait_for(context->fd, events)) {
      return false;
    }
    int is_done = 0;
    if (!has_sent && redisBufferWrite(context, &is_done) != REDIS_OK) {
      return false;
    }
    has_sent = has_sent || is_done != 0;
    return redisBufferRead(context) == REDIS_OK;
  }
  // The next of the replies that have been read.
  std::optional<RedisReply> next_reply() const {
    void* raw = nullptr;
    if (redisGetReplyFromReader(context, &raw) != REDIS_OK || raw == nullptr) {
      return std::nullopt;
    }
    RedisReply reply = take_reply(*static_cast<redisReply*>(raw));
    freeReplyObject(raw);
    return reply;
  }

  // No command is answered by an array. hiredis would make one of any size that it is told, and
  // walk through all of it to free it.
  void refuse_arrays() {
    functions = *context->reader->fn;
    functions.createArray = [](const redisReadTask* task, auto) -> void* {
      *static_cast<bool*>(task->privdata) = true;
      return nullptr;
    };
    context->reader->fn = &functions;
    context->reader->privdata = &has_array;
  }

  redisContext* context;
  redisReplyObjectFunctions functions{};
  bool has_array = false;
};

RedisLink::RedisLink(RedisAddress address) : address_(std::move(address)) {}
RedisLink::~RedisLink() = default;

bool RedisLink::is_open() const {
  return connection_ != nullptr;
}

void RedisLink::close() {
  connection_.reset();
}

Result<void> RedisLink::open(const RedisPatience& patience) {
  Wait wait(patience);
  connection_ =
      std::make_unique<Connection>(redisConnectNonBlock(address_.host.c_str(), address_.port));
  if (const std::string reason = connection_->connect_error(wait); !reason.empty()) {
    close();
    return fail(ErrorCode::kIo, "{}: cannot connect ({})", address_.name(), reason);
  }
  std::vector<RedisCommand> commands;
  if (!address_.password.empty()) {
    commands.push_back({"AUTH", address_.password});
  }
  commands.push_back({"SELECT", std::to_string(address_.database)});
  const auto replies = exchange(commands, patience);
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
                                                    const RedisPatience& patience) {
  std::vector<RedisReply> replies;
  const auto done = exchange(
      commands, patience, [&](size_t, RedisReply reply) { replies.push_back(std::move(reply)); });
  if (!done) {
    return propagate(done);
  }
  return replies;
}

Result<void> RedisLink::exchange(const std::vector<RedisCommand>& commands,
                                 const RedisPatience& patience,
                                 const OnReply& on_reply) {
  if (!is_open()) {
    return fail(ErrorCode::kIo, "{}: not connected", address_.name());
  }
  Wait wait(patience);
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
  size_t n_replies = 0;
  bool has_sent = false;
  while (n_replies < commands.size()) {
    const bool has_advanced = connection_->advance(has_sent, wait);
    while (auto reply = connection_->next_reply()) {
      if (n_replies == commands.size()) {
        close();
        return fail(ErrorCode::kIo, "{}: more replies than commands", address_.name());
      }
      on_reply(n_replies++, std::move(*reply));
    }
    if (!has_advanced || connection_->context->err != 0) {
      const std::string reason = connection_->advance_error(wait);
      close();
      return fail(ErrorCode::kIo, "{}: {}", address_.name(), reason);
    }
  }
  return {};
}

}  // namespace millrace

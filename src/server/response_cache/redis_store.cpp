#include "server/response_cache/redis_store.h"

#include <fmt/format.h>
#include <signal.h>

#include <iterator>
#include <utility>

#include "base/log.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectLimit{1000};
constexpr milliseconds kWriteLimit{5000};
constexpr milliseconds kPause{1000};  // before another attempt to connect, between two looks
constexpr const char* kPrefix = "millrace:response:1:";

Counter error_counter(Metrics& metrics, const char* kind) {
  return metrics.counter(
      "millrace_response_cache_redis_errors_total",
      "What went wrong with Redis (connection: none, lost or too slow; reply: an error; record: "
      "not "
      "one of ours, or broken; dropped: an answer that found no room in the queue)",
      {{"kind", kind}});
}

// hiredis writes to sockets whose other end may be gone.
void block_sigpipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void log_state(const Result<void>& answered) {
  if (answered) {
    log_info("[response cache] Redis answers");
  } else {
    log_warning("[response cache] Redis does not answer: {}", answered.error().message);
  }
}

}  // namespace

void RedisLookup::finish(SharedRecord record) {
  record_ = std::move(record);
  is_done_.store(true, std::memory_order_release);
  wake_();
}

RedisStore::RedisStore(RedisStoreOptions options, Metrics& metrics)
    : options_(std::move(options)),
      connection_errors_(error_counter(metrics, "connection")),
      reply_errors_(error_counter(metrics, "reply")),
      record_errors_(error_counter(metrics, "record")),
      dropped_(error_counter(metrics, "dropped")),
      up_(metrics.gauge("millrace_response_cache_redis_up", "1 while Redis answers")),
      reader_([this] { run_reader(); }),
      writer_([this] { run_writer(); }) {}

RedisStore::~RedisStore() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  reader_news_.notify_all();
  writer_news_.notify_all();
  reader_.join();
  writer_.join();
}

std::string RedisStore::redis_key(const Digest256& key) {
  std::string name = kPrefix;
  for (const std::byte byte : key) {
    fmt::format_to(std::back_inserter(name), "{:02x}", std::to_integer<int>(byte));
  }
  return name;
}

Digest256 RedisStore::own_key(const Digest256& key) const {
  Sha256 digest;
  digest.add(namespace_);
  digest.add(key);
  return digest.finish();
}

std::shared_ptr<RedisLookup> RedisStore::find(const Digest256& key,
                                              const AnswerShape& shape,
                                              Waker wake) {
  const auto lookup = std::make_shared<RedisLookup>();
  lookup->shape_ = shape;
  lookup->wake_ = std::move(wake);
  const std::lock_guard lock(mutex_);
  if (!is_up_) {
    return nullptr;
  }
  lookup->key_ = own_key(key);
  lookups_.push_back(lookup);
  reader_news_.notify_one();
  return lookup;
}

void RedisStore::put(const Digest256& key, SharedRecord record) {
  if (record->size() > kMaxRecordBytes) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!is_up_) {
    return;
  }
  if (n_queued_bytes_ + record->size() > kMaxQueuedBytes) {
    dropped_.add();
    return;
  }
  n_queued_bytes_ += record->size();
  writes_.push_back({own_key(key), std::move(record)});
  writer_news_.notify_one();
}

void RedisStore::run_reader() {
  block_sigpipe();
  const auto name = options_.make_namespace(is_stopping_);
  if (!name) {
    return;
  }
  namespace_ = *name;
  bool has_logged = false;
  RedisLink link(options_.address);
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    const auto lookups = std::exchange(lookups_, {});
    lock.unlock();
    const auto answered = link.is_open() ? read(link, lookups) : link.open(kConnectLimit);
    if (!answered) {
      connection_errors_.add();
    }
    lock.lock();
    if (answered.has_value() != is_up_ || !std::exchange(has_logged, true)) {
      log_state(answered);
      set_up(answered.has_value());
    }
    // While Redis answers, it is asked now and then without a reason, so that no client is the
    // first to meet a dead server.
    reader_news_.wait_for(lock, kPause, [this] { return is_stopping_ || !lookups_.empty(); });
  }
}

// Those who still wait for a server that has gone are told so.
void RedisStore::set_up(bool is_up) {
  is_up_ = is_up;
  up_.set(is_up ? 1 : 0);
  if (!is_up) {
    for (const auto& lookup : std::exchange(lookups_, {})) {
      lookup->finish(nullptr);
    }
  }
}

// Every lookup is finished, whatever happens.
Result<void> RedisStore::read(RedisLink& link,
                              const std::vector<std::shared_ptr<RedisLookup>>& lookups) {
  std::vector<RedisCommand> commands;
  for (const auto& lookup : lookups) {
    // No more than one of our records can be: what is longer is cut, and then is none.
    commands.push_back(
        {"GETRANGE", redis_key(lookup->key_), "0", std::to_string(kMaxRecordBytes + kSealBytes)});
  }
  if (commands.empty()) {
    commands.push_back({"PING"});
  }
  const auto replies = link.exchange(commands, options_.read_limit);
  for (size_t i = 0; i < lookups.size(); ++i) {
    lookups[i]->finish(replies ? take_record((*replies)[i], *lookups[i]) : nullptr);
  }
  if (!replies) {
    return propagate(replies);
  }
  return {};
}

SharedRecord RedisStore::take_record(const RedisReply& reply, const RedisLookup& lookup) {
  if (reply.is_error) {
    reply_errors_.add();
    return nullptr;
  }
  if (reply.text.empty()) {
    return nullptr;
  }
  auto record = open_record(reply.text, lookup.key_, lookup.shape_);
  if (!record) {
    record_errors_.add();
    return nullptr;
  }
  return std::make_shared<const std::string>(std::move(*record));
}

void RedisStore::run_writer() {
  block_sigpipe();
  RedisLink link(options_.address);
  std::unique_lock lock(mutex_);
  while (true) {
    writer_news_.wait(lock, [this] { return is_stopping_ || !writes_.empty(); });
    if (is_stopping_) {
      return;
    }
    const Write job = std::move(writes_.front());
    writes_.pop_front();
    lock.unlock();
    const auto written = write(link, job);
    lock.lock();
    n_queued_bytes_ -= job.record->size();
    if (!written) {  // the others would not fare better
      connection_errors_.add();
      writes_.clear();
      n_queued_bytes_ = 0;
    }
  }
}

Result<void> RedisStore::write(RedisLink& link, const Write& job) {
  const std::vector<RedisCommand> commands{
      {"SET", redis_key(job.key), seal_record(job.key, *job.record)}};
  auto replies = link.exchange(commands, kWriteLimit);
  if (!replies) {  // no connection yet, or one to a server that has been restarted since
    if (auto opened = link.open(kConnectLimit); !opened) {
      return opened;
    }
    replies = link.exchange(commands, kWriteLimit);
  }
  if (!replies) {
    return propagate(replies);
  }
  if (replies->front().is_error) {
    reply_errors_.add();
  }
  return {};
}

}  // namespace millrace

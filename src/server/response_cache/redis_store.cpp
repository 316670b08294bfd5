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
constexpr milliseconds kPause{1000};  // before another attempt to connect, between two looks
constexpr const char* kPrefix = "millrace:response:1:";

Counter error_counter(Metrics& metrics, const char* kind) {
  return metrics.counter(
      "millrace_response_cache_redis_errors_total",
      "What went wrong with Redis (connection: none, lost or too slow; reply: an error; record: "
      "not one of ours, or broken; dropped: an answer that was not written, for want of room in "
      "the queue, of a connection or of time)",
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
    end_ = Clock::now() + options_.farewell_limit;
    is_stopping_ = true;
    has_stopped_looking_ = true;
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
  lookup->asked_ = Clock::now();
  const std::lock_guard lock(mutex_);
  if (!is_up_ || has_stopped_looking_) {
    return nullptr;
  }
  lookup->key_ = own_key(key);
  lookups_.push_back(lookup);
  reader_news_.notify_one();
  return lookup;
}

void RedisStore::stop_looking() {
  const std::lock_guard lock(mutex_);
  has_stopped_looking_ = true;
  give_up_lookups();
  reader_news_.notify_all();
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
    if (!is_stopping_) {
      log_warning("[response cache] Redis is not used: {}", name.error().message);
    }
    return;
  }
  namespace_ = *name;
  bool has_logged = false;
  RedisLink link(options_.address);
  std::unique_lock lock(mutex_);
  while (!has_stopped_looking_) {
    const Lookups lookups = take_batch();
    lock.unlock();
    const auto answered =
        link.is_open() ? read(link, lookups) : link.open(reading(kConnectLimit, kConnectLimit));
    if (!answered && !has_stopped_looking_) {
      connection_errors_.add();
    }
    lock.lock();
    if (has_stopped_looking_) {
      break;
    }
    if (answered.has_value() != is_up_ || !std::exchange(has_logged, true)) {
      log_state(answered);
      set_up(answered.has_value());
    }
    // While Redis answers, it is asked now and then without a reason, so that no client is the
    // first to meet a dead server.
    reader_news_.wait_for(
        lock, kPause, [this] { return has_stopped_looking_ || !lookups_.empty(); });
  }
  give_up_lookups();
}

// What has waited too long behind others is not asked for.
RedisStore::Lookups RedisStore::take_batch() {
  Lookups batch;
  const TimePoint oldest = Clock::now() - options_.batch_limit;
  while (!lookups_.empty() && batch.size() < kMaxBatch) {
    if (lookups_.front()->asked_ < oldest) {
      lookups_.front()->finish(nullptr);
    } else {
      batch.push_back(std::move(lookups_.front()));
    }
    lookups_.pop_front();
  }
  return batch;
}

// Those who still wait for a server that has gone are told so.
void RedisStore::set_up(bool is_up) {
  is_up_ = is_up;
  up_.set(is_up ? 1 : 0);
  read_error_code_.clear();
  if (!is_up) {
    give_up_lookups();
  }
}

void RedisStore::give_up_lookups() {
  for (const auto& lookup : std::exchange(lookups_, {})) {
    lookup->finish(nullptr);
  }
}

RedisPatience RedisStore::reading(milliseconds silence, milliseconds total) const {
  return {silence, total, [this] { return has_stopped_looking_.load(); }};
}

RedisPatience RedisStore::writing(milliseconds limit) const {
  return {limit, limit, [this] { return is_over(); }};
}

// Stopping, and the time for what is queued has passed.
bool RedisStore::is_over() const {
  return is_stopping_ && Clock::now() >= end_;
}

// Every lookup is finished, whatever happens; those whose replies have come before a server falls
// silent, with these.
Result<void> RedisStore::read(RedisLink& link, const Lookups& lookups) {
  std::vector<RedisCommand> commands;
  for (const auto& lookup : lookups) {
    // No more than one of our records can be: what is longer is cut, and then is none.
    commands.push_back(
        {"GETRANGE", redis_key(lookup->key_), "0", std::to_string(kMaxRecordBytes + kSealBytes)});
  }
  if (commands.empty()) {
    commands.push_back({"PING"});
  }
  size_t n_finished = 0;
  auto answered = link.exchange(commands,
                                reading(options_.read_limit, options_.batch_limit),
                                [&](size_t i, const RedisReply& reply) {
                                  if (i < lookups.size()) {
                                    lookups[i]->finish(take_record(reply, *lookups[i]));
                                    ++n_finished;
                                  }
                                });
  for (; n_finished < lookups.size(); ++n_finished) {
    lookups[n_finished]->finish(nullptr);
  }
  return answered;
}

SharedRecord RedisStore::take_record(const RedisReply& reply, const RedisLookup& lookup) {
  if (reply.is_error) {
    note_error(reply, read_error_code_);
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

// An error that comes with every answer is logged once; the words after the first may differ.
void RedisStore::note_error(const RedisReply& reply, std::string& last_code) {
  reply_errors_.add();
  std::string code = reply.text.substr(0, reply.text.find(' '));
  if (code != last_code) {
    log_warning("[response cache] Redis says: {}", reply.text);
    last_code = std::move(code);
  }
}

void RedisStore::run_writer() {
  block_sigpipe();
  RedisLink link(options_.address);
  std::unique_lock lock(mutex_);
  while (true) {
    writer_news_.wait(lock, [this] { return is_stopping_ || !writes_.empty(); });
    if (writes_.empty() || is_over()) {
      break;
    }
    const Write job = std::move(writes_.front());
    writes_.pop_front();
    lock.unlock();
    const auto written = write(link, job);
    lock.lock();
    n_queued_bytes_ -= job.record->size();
    if (!written) {
      connection_errors_.add();
      // Those behind it would not fare better.
      dropped_.add(static_cast<double>(writes_.size() + 1));
      writes_.clear();
      n_queued_bytes_ = 0;
    }
  }
  if (!writes_.empty()) {
    dropped_.add(static_cast<double>(writes_.size()));
    log_warning("[response cache] {} answers were not written to Redis for want of time",
                writes_.size());
  }
}

Result<void> RedisStore::write(RedisLink& link, const Write& job) {
  const std::vector<RedisCommand> commands{
      {"SET", redis_key(job.key), seal_record(job.key, *job.record)}};
  auto replies = link.exchange(commands, writing(options_.write_limit));
  if (!replies && is_over()) {
    return propagate(replies);
  }
  if (!replies) {  // no connection yet, or one to a server that has been restarted since
    if (auto opened = link.open(writing(kConnectLimit)); !opened) {
      return opened;
    }
    write_error_code_.clear();
    replies = link.exchange(commands, writing(options_.write_limit));
  }
  if (!replies) {
    return propagate(replies);
  }
  if (replies->front().is_error) {
    note_error(replies->front(), write_error_code_);
  }
  return {};
}

}  // namespace millrace

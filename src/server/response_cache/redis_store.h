#pragma once
// Records of answers in a Redis server. Two threads of its own, one that reads and one that writes,
// so that a slow or dead server delays nobody: while it does not answer, nothing is looked up.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/metrics.h"
#include "base/result.h"
#include "server/http.h"
#include "server/response_cache/answer_record.h"
#include "server/response_cache/memory_store.h"
#include "server/response_cache/redis_link.h"

namespace millrace {

struct RedisStoreOptions {
  RedisAddress address;
  // What else decides about answers: the weights, the version, and so on. Called once, on a thread
  // of the store; until then nothing is looked up or kept. It may give up when the store stops.
  std::function<Result<Digest256>(const std::atomic<bool>& is_stopping)> make_namespace;
  // A server that says nothing for so long while it is asked does not answer.
  std::chrono::milliseconds read_limit{50};
  // Whole replies to some lookups, as long as bytes come.
  std::chrono::milliseconds batch_limit{1000};
  std::chrono::milliseconds write_limit{5000};
  // For what is still to be written when the store ends.
  std::chrono::milliseconds farewell_limit{1000};
};

// A question to Redis. It is done when Redis has said nothing for read_limit, and after at most
// twice batch_limit, whatever Redis does.
class RedisLookup {
 public:
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  SharedRecord take() { return std::move(record_); }  // once done; null: not there

 private:
  friend class RedisStore;

  void finish(SharedRecord record);

  Digest256 key_{};  // in Redis
  AnswerShape shape_;
  Waker wake_;
  TimePoint asked_;
  SharedRecord record_;
  std::atomic<bool> is_done_{false};
};

class RedisStore {
 public:
  // So that kMaxBatch of them pass within batch_limit at a gigabit a second.
  static constexpr size_t kMaxRecordBytes = 1 << 20;
  static constexpr size_t kMaxBatch = 16;              // lookups asked for at once
  static constexpr size_t kMaxQueuedBytes = 64 << 20;  // to be written

  RedisStore(RedisStoreOptions options, Metrics& metrics);
  ~RedisStore();  // writes what is queued, as long as farewell_limit allows
  RedisStore(const RedisStore&) = delete;
  RedisStore& operator=(const RedisStore&) = delete;

  // Any thread. Null: Redis does not answer at present.
  std::shared_ptr<RedisLookup> find(const Digest256& key, const AnswerShape& shape, Waker wake);
  // Any thread. From now on nothing is looked up, and who waits is told at once that nothing was
  // found. What is put is still written.
  void stop_looking();
  // Any thread. What finds no room in the queue, or no Redis, is lost.
  void put(const Digest256& key, SharedRecord record);

  // "millrace:response:1:" and 64 digits.
  static std::string redis_key(const Digest256& key);

 private:
  struct Write {
    Digest256 key;  // in Redis
    SharedRecord record;
  };

  using Lookups = std::vector<std::shared_ptr<RedisLookup>>;

  void run_reader();
  void run_writer();
  void set_up(bool is_up);
  void give_up_lookups();
  Lookups take_batch();
  Result<void> read(RedisLink& link, const Lookups& lookups);
  SharedRecord take_record(const RedisReply& reply, const RedisLookup& lookup);
  Result<void> write(RedisLink& link, const Write& job);
  bool is_over() const;
  RedisPatience reading(std::chrono::milliseconds silence, std::chrono::milliseconds total) const;
  RedisPatience writing(std::chrono::milliseconds limit) const;
  void note_error(const RedisReply& reply, std::string& last_code);
  Digest256 own_key(const Digest256& key) const;

  const RedisStoreOptions options_;
  Counter connection_errors_;
  Counter reply_errors_;
  Counter record_errors_;
  Counter dropped_;
  Gauge up_;

  TimePoint end_;  // of farewell_limit: constant once is_stopping_
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> has_stopped_looking_{false};
  std::mutex mutex_;  // of what follows
  std::condition_variable reader_news_;
  std::condition_variable writer_news_;
  std::deque<std::shared_ptr<RedisLookup>> lookups_;
  std::deque<Write> writes_;
  size_t n_queued_bytes_ = 0;
  bool is_up_ = false;  // the reader's connection

  Digest256 namespace_{};  // constant once is_up_ has been true
  // The first word of the last error over a connection, so that it is logged once.
  std::string read_error_code_;   // the reader's
  std::string write_error_code_;  // the writer's

  std::thread reader_;
  std::thread writer_;
};

}  // namespace millrace

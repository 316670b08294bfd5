#pragma once
// Whole answers by what was asked, in memory and in a Redis that several servers share, and the
// computations that others may join. Outlives the server. Any thread.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "server/response_cache/answer_record.h"
#include "server/response_cache/cache_policy.h"
#include "server/response_cache/flight.h"
#include "server/response_cache/memory_store.h"
#include "server/response_cache/redis_store.h"

namespace millrace {

struct ResponseCacheOptions {
  int64_t memory_bytes = 0;  // 0: nothing is kept in memory
  std::optional<RedisStoreOptions> redis = {};
};

struct CacheQuestion {
  Digest256 key{};
  CacheUse use;
  AnswerShape shape;
  QueuePlace place;  // of the computation; nothing of the answer depends on it
  Compute compute;
  Waker wake;
  SharedRecord found = nullptr;  // by look_elsewhere
};

class ResponseCache {
 public:
  ResponseCache(ResponseCacheOptions options, Metrics& metrics);
  ~ResponseCache();
  ResponseCache(const ResponseCache&) = delete;
  ResponseCache& operator=(const ResponseCache&) = delete;

  // Asks Redis for what is not at hand; null when there is no reason to wait for it.
  std::shared_ptr<RedisLookup> look_elsewhere(const CacheQuestion& question);

  // The end of the server is near: who waits for Redis goes on without it.
  void stop_looking_elsewhere();

  // From memory, from somebody who is just computing the same, whose failure is shared as well, or
  // computed. Who would wait for a computation whose turn may come later than their own computes
  // themselves, and others may join either. An error is that of compute.
  Result<std::unique_ptr<AnswerFeed>> answer(CacheQuestion question);

 private:
  friend class FlightFeed;

  using Flights = std::vector<std::shared_ptr<Flight>>;

  struct Attempt {
    SharedRecord record = nullptr;  // else a flight and its reader
    std::shared_ptr<Flight> flight = nullptr;
    Flight::Reader* reader = nullptr;
    bool is_leader = false;
    Flights later = {};  // computations of the same whose turn may come later
  };

  Result<std::unique_ptr<AnswerFeed>> answer_alone(const CacheQuestion& question);
  Result<Attempt> attempt(const CacheQuestion& question);
  // What is there under the key and would not delay `own`; else others find that as well.
  Attempt find_or_publish(const std::shared_ptr<Flight>& own);
  void settle(const Flight& flight, Flight::State state);
  void forget(const Flight& flight);

  MemoryStore memory_;
  std::unique_ptr<RedisStore> redis_;
  const size_t max_record_bytes_;
  std::mutex mutex_;                                            // of flights_
  std::unordered_map<Digest256, Flights, DigestHash> flights_;  // by key, the newest first
  Counter hits_;
  Counter shared_;
  Counter misses_;
  Counter bypasses_;
  Counter memory_hits_;
  Counter redis_hits_;
  Counter too_large_;
};

}  // namespace millrace

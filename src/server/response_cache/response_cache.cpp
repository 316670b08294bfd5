#include "server/response_cache/response_cache.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

Counter outcome_counter(Metrics& metrics, const char* outcome) {
  return metrics.counter("millrace_response_cache_requests_total",
                         "Requests by what the response cache did for them (shared: they waited "
                         "for another's computation)",
                         {{"outcome", outcome}});
}

Counter hit_counter(Metrics& metrics, const char* tier) {
  return metrics.counter("millrace_response_cache_hits_total",
                         "Answers that the response cache had, by where",
                         {{"tier", tier}});
}

// An answer that was kept.
class StoredFeed : public AnswerFeed {
 public:
  explicit StoredFeed(SharedRecord record) : record_(std::move(record)), rest_(*record_) {
    set_cache_outcome(CacheOutcome::kHit);
  }

  bool try_next(StreamEvent& event) override {
    if (rest_.empty()) {
      return false;
    }
    MR_CHECK(take_event(rest_, event), "a record of the response cache is broken");
    return true;
  }
  bool is_finished() const override { return rest_.empty(); }

 private:
  const SharedRecord record_;
  std::string_view rest_;
};

}  // namespace

// A reader of a flight. How it fails is told to all of them: what a computation fails of (a full
// queue, a fault of ours, the end of the server) would meet the next one of the same request too,
// and many of them at once would make it worse.
class FlightFeed : public AnswerFeed {
 public:
  FlightFeed(ResponseCache& cache, ResponseCache::Attempt attempt)
      : cache_(cache), flight_(std::move(attempt.flight)), reader_(attempt.reader) {
    set_cache_outcome(attempt.is_leader ? CacheOutcome::kMiss : CacheOutcome::kHit);
  }
  ~FlightFeed() override {
    if (flight_->leave(*reader_)) {
      cache_.forget(*flight_);
    }
  }

  bool try_next(StreamEvent& event) override {
    if (rest_.empty() && !is_finished_) {
      const Flight::Progress progress = flight_->read(*reader_, news_);
      rest_ = news_;
      state_ = progress.state;
      if (progress.is_news) {
        cache_.settle(*flight_, progress.state);
      }
    }
    if (!rest_.empty()) {
      MR_CHECK(take_event(rest_, event), "the record of a computation is broken");
      return true;
    }
    if (is_finished_ || state_ == Flight::State::kRunning) {
      return false;
    }
    is_finished_ = true;
    if (state_ == Flight::State::kFailed) {
      event = {.choice = 0, .body = flight_->failure()};
      return true;
    }
    return false;
  }
  bool is_finished() const override { return is_finished_; }

 private:
  ResponseCache& cache_;
  const std::shared_ptr<Flight> flight_;
  Flight::Reader* const reader_;
  Flight::State state_ = Flight::State::kRunning;
  bool is_finished_ = false;
  std::string news_;       // as read
  std::string_view rest_;  // of it
};

ResponseCache::ResponseCache(ResponseCacheOptions options, Metrics& metrics)
    : memory_(options.memory_bytes, metrics),
      redis_(options.redis ? std::make_unique<RedisStore>(std::move(*options.redis), metrics)
                           : nullptr),
      max_record_bytes_(
          std::max(memory_.max_record_bytes(), redis_ ? RedisStore::kMaxRecordBytes : 0)),
      hits_(outcome_counter(metrics, "hit")),
      shared_(outcome_counter(metrics, "shared")),
      misses_(outcome_counter(metrics, "miss")),
      bypasses_(outcome_counter(metrics, "bypass")),
      memory_hits_(hit_counter(metrics, "memory")),
      redis_hits_(hit_counter(metrics, "redis")),
      too_large_(metrics.counter("millrace_response_cache_too_large_total",
                                 "Answers that were too large to be kept")) {}

ResponseCache::~ResponseCache() = default;

std::shared_ptr<RedisLookup> ResponseCache::look_elsewhere(const CacheQuestion& question) {
  if (redis_ == nullptr || !question.use.reads || memory_.contains(question.key)) {
    return nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    if (flights_.contains(question.key)) {
      return nullptr;
    }
  }
  return redis_->find(question.key, question.shape, question.wake);
}

void ResponseCache::stop_looking_elsewhere() {
  if (redis_ != nullptr) {
    redis_->stop_looking();
  }
}

Result<std::unique_ptr<AnswerFeed>> ResponseCache::answer(CacheQuestion question) {
  if (question.found != nullptr) {
    memory_.put(question.key, question.found);
    hits_.add();
    redis_hits_.add();
    return std::make_unique<StoredFeed>(std::move(question.found));
  }
  if (!question.use.writes) {
    return answer_alone(question);
  }
  auto attempt = this->attempt(question);
  if (!attempt) {
    return propagate(attempt);
  }
  if (attempt->record != nullptr) {
    hits_.add();
    memory_hits_.add();
    return std::make_unique<StoredFeed>(std::move(attempt->record));
  }
  return std::make_unique<FlightFeed>(*this, std::move(*attempt));
}

// For nobody else, unless it is there already.
Result<std::unique_ptr<AnswerFeed>> ResponseCache::answer_alone(const CacheQuestion& question) {
  if (question.use.reads) {
    if (SharedRecord record = memory_.find(question.key)) {
      hits_.add();
      memory_hits_.add();
      return std::make_unique<StoredFeed>(std::move(record));
    }
  }
  auto feed = question.compute(question.wake);
  if (feed) {
    (*feed)->set_cache_outcome(CacheOutcome::kBypass);
    bypasses_.add();
  }
  return feed;
}

Result<ResponseCache::Attempt> ResponseCache::attempt(const CacheQuestion& question) {
  while (true) {
    const auto own = std::make_shared<Flight>(question.key, max_record_bytes_, question.place);
    auto starting = own->hold();
    Attempt found = find_or_publish(own);
    if (!question.use.reads || (found.record == nullptr && found.flight == nullptr)) {
      const auto reader = own->start(question.compute, question.wake);
      starting.unlock();
      if (!reader) {
        forget(*own);
        if (question.use.reads) {  // better late than not at all
          for (const auto& flight : found.later) {
            if ((found.reader = flight->join(question.wake)) != nullptr) {
              found.flight = flight;
              shared_.add();
              return found;
            }
          }
        }
        return propagate(reader);
      }
      misses_.add();
      return Attempt{.flight = own, .reader = *reader, .is_leader = true};
    }
    starting.unlock();
    if (found.record != nullptr) {
      return found;
    }
    found.reader = found.flight->join(question.wake);
    if (found.reader != nullptr) {
      shared_.add();
      return found;
    }
    forget(*found.flight);
  }
}

// A flight that is gone from the table has left its record in memory before.
ResponseCache::Attempt ResponseCache::find_or_publish(const std::shared_ptr<Flight>& own) {
  const std::lock_guard lock(mutex_);
  if (SharedRecord record = memory_.find(own->key())) {
    return {.record = std::move(record)};
  }
  Flights& flights = flights_[own->key()];
  const auto found =
      std::ranges::find_if(flights, [&](const auto& flight) { return !flight->would_delay(*own); });
  if (found != flights.end()) {
    return {.flight = *found};
  }
  Attempt attempt{.later = flights};
  flights.insert(flights.begin(), own);
  return attempt;
}

void ResponseCache::settle(const Flight& flight, Flight::State state) {
  if (const SharedRecord record = flight.record()) {
    memory_.put(flight.key(), record);
    if (redis_ != nullptr) {
      redis_->put(flight.key(), record);
    }
  } else if (state == Flight::State::kWhole) {
    too_large_.add();
  }
  forget(flight);
}

void ResponseCache::forget(const Flight& flight) {
  const std::lock_guard lock(mutex_);
  const auto found = flights_.find(flight.key());
  if (found == flights_.end()) {
    return;
  }
  std::erase_if(found->second, [&](const auto& one) { return one.get() == &flight; });
  if (found->second.empty()) {
    flights_.erase(found);
  }
}

}  // namespace millrace

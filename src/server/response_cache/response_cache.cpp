#include "server/response_cache/response_cache.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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

// A reader of a flight. When the computation of another fails, it makes an attempt of its own and
// goes on where it was: the events of each choice are the same.
class FlightFeed : public AnswerFeed {
 public:
  FlightFeed(ResponseCache& cache, CacheQuestion question, ResponseCache::Attempt attempt)
      : cache_(cache),
        question_(std::move(question)),
        n_delivered_(static_cast<size_t>(question_.shape.n_choices), 0),
        n_to_skip_(n_delivered_) {
    board(std::move(attempt));
  }
  ~FlightFeed() override { leave(); }

  bool try_next(StreamEvent& event) override {
    while (!is_finished_) {
      if (take_unseen(event)) {
        return true;
      }
      if (flight_ == nullptr) {  // the second attempt found it stored
        is_finished_ = true;
        return false;
      }
      const Flight::Progress progress = flight_->read(*reader_, news_);
      rest_ = news_;
      if (progress.is_news) {
        cache_.settle(*flight_, progress.state);
      }
      if (!rest_.empty()) {
        continue;
      }
      if (progress.state == Flight::State::kFailed && !is_leader_) {
        if (const auto again = try_again(); !again) {
          return fail({.reason = FinishReason::kError, .error = again.error()}, event);
        }
      } else if (progress.state == Flight::State::kFailed) {
        return fail(flight_->failure(), event);
      } else {
        is_finished_ = progress.state == Flight::State::kWhole;
        return false;
      }
    }
    return false;
  }
  bool is_finished() const override { return is_finished_; }

 private:
  void board(ResponseCache::Attempt attempt) {
    flight_ = std::move(attempt.flight);
    reader_ = attempt.reader;
    is_leader_ = attempt.is_leader;
    set_cache_outcome(is_leader_ ? CacheOutcome::kMiss : CacheOutcome::kHit);
    if (is_leader_) {
      question_.compute = nullptr;  // the prompts in it may be long
    }
  }

  void leave() {
    if (flight_ != nullptr && flight_->leave(*reader_)) {
      cache_.forget(*flight_);
    }
    flight_ = nullptr;
  }

  // Joins another computation once, so that those who wait for the same do not all compute.
  Result<void> try_again() {
    leave();
    n_to_skip_ = n_delivered_;
    auto attempt =
        cache_.attempt(question_, question_.use.reads && !std::exchange(has_tried_, true));
    if (!attempt) {
      return propagate(attempt);
    }
    if (attempt->record != nullptr) {
      news_ = *attempt->record;
      rest_ = news_;
    } else {
      board(std::move(*attempt));
    }
    return {};
  }

  bool fail(FinishEvent failure, StreamEvent& event) {
    is_finished_ = true;
    event = {.choice = 0, .body = std::move(failure)};
    return true;
  }

  bool take_unseen(StreamEvent& event) {
    while (!rest_.empty()) {
      MR_CHECK(take_event(rest_, event), "the record of a computation is broken");
      const auto choice = static_cast<size_t>(event.choice);
      if (n_to_skip_[choice] == 0) {
        ++n_delivered_[choice];
        return true;
      }
      --n_to_skip_[choice];
    }
    return false;
  }

  ResponseCache& cache_;
  CacheQuestion question_;
  std::shared_ptr<Flight> flight_;
  Flight::Reader* reader_ = nullptr;
  bool is_leader_ = false;
  bool has_tried_ = false;  // to join a second time
  bool is_finished_ = false;
  std::string news_;                  // as read
  std::string_view rest_;             // of it
  std::vector<int64_t> n_delivered_;  // events, by choice
  std::vector<int64_t> n_to_skip_;    // of a second computation, delivered already
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

Result<std::unique_ptr<AnswerFeed>> ResponseCache::answer(CacheQuestion question) {
  if (!question.use.writes) {
    auto feed = question.compute(question.wake);
    if (feed) {
      (*feed)->set_cache_outcome(CacheOutcome::kBypass);
      bypasses_.add();
    }
    return feed;
  }
  if (question.found != nullptr) {
    memory_.put(question.key, question.found);
    hits_.add();
    redis_hits_.add();
    return std::make_unique<StoredFeed>(std::move(question.found));
  }
  auto attempt = this->attempt(question, question.use.reads);
  if (!attempt) {
    return propagate(attempt);
  }
  if (attempt->record != nullptr) {
    hits_.add();
    memory_hits_.add();
    return std::make_unique<StoredFeed>(std::move(attempt->record));
  }
  return std::make_unique<FlightFeed>(*this, std::move(question), std::move(*attempt));
}

Result<ResponseCache::Attempt> ResponseCache::attempt(const CacheQuestion& question,
                                                      bool may_join) {
  while (true) {
    const auto own = std::make_shared<Flight>(question.key, max_record_bytes_);
    auto starting = own->hold();
    Attempt found = find_or_publish(own);
    if (!may_join || (found.record == nullptr && found.flight == nullptr)) {
      const auto reader = own->start(question.compute, question.wake);
      starting.unlock();
      if (!reader) {
        forget(*own);
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
  const auto found = flights_.find(own->key());
  if (found != flights_.end()) {
    return {.flight = found->second};
  }
  Attempt attempt{.record = memory_.find(own->key())};
  if (attempt.record == nullptr) {
    flights_.emplace(own->key(), own);
  }
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
  if (found != flights_.end() && found->second.get() == &flight) {
    flights_.erase(found);
  }
}

}  // namespace millrace

#include "server/response_cache/response_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <thread>

namespace millrace {
namespace {

// A computation that does what the test says.
struct Computation {
  void say(StreamEvent event) {
    {
      const std::lock_guard lock(mutex);
      events.push_back(std::move(event));
    }
    on_ready();
  }
  void token(int choice, TokenId id, size_t n_bytes = 1) {
    say({choice, TokenEvent{.token = id, .text = std::string(n_bytes, 'a')}});
  }
  void finish(int choice, FinishReason reason = FinishReason::kStop) {
    FinishEvent event{.reason = reason};
    event.error = {ErrorCode::kInternal, "broken"};
    event.usage.prompt_tokens = 9;
    say({choice, std::move(event)});
  }

  std::mutex mutex;
  std::deque<StreamEvent> events;
  Waker on_ready;
  int n_choices = 1;
  bool is_cancelled = false;
};

class ComputationFeed : public AnswerFeed {
 public:
  explicit ComputationFeed(std::shared_ptr<Computation> computation)
      : computation_(std::move(computation)), n_unfinished_(computation_->n_choices) {}
  ~ComputationFeed() override {
    const std::lock_guard lock(computation_->mutex);
    computation_->is_cancelled = n_unfinished_ > 0;
  }
  bool try_next(StreamEvent& event) override {
    const std::lock_guard lock(computation_->mutex);
    if (computation_->events.empty()) {
      return false;
    }
    event = std::move(computation_->events.front());
    computation_->events.pop_front();
    n_unfinished_ -= std::holds_alternative<FinishEvent>(event.body) ? 1 : 0;
    return true;
  }
  bool is_finished() const override { return n_unfinished_ == 0; }

 private:
  const std::shared_ptr<Computation> computation_;
  int n_unfinished_;
};

// Somebody who asks, and what they have been told so far.
struct Client {
  void pull() {
    StreamEvent event;
    while (feed != nullptr && feed->try_next(event)) {
      if (const auto* token = std::get_if<TokenEvent>(&event.body)) {
        ids[event.choice].push_back(token->token);
      } else {
        ends.push_back(std::get<FinishEvent>(event.body));
      }
    }
  }
  std::vector<TokenId> seen(int choice = 0) {
    pull();
    return ids[choice];
  }
  bool is_whole() {
    pull();
    return feed->is_finished() && ends.back().reason == FinishReason::kStop;
  }

  std::unique_ptr<AnswerFeed> feed;
  std::map<int, std::vector<TokenId>> ids;
  std::vector<FinishEvent> ends;
};

using Ids = std::vector<TokenId>;

class ResponseCacheTest : public testing::Test {
 protected:
  CacheQuestion question(int key = 1, CacheUse use = {true, true}, QueuePlace place = {}) {
    CacheQuestion question;
    question.place = place;
    question.key = {static_cast<std::byte>(key)};
    question.use = use;
    question.shape = {.n_choices = n_choices_, .n_vocab = 1000};
    question.compute = [this](const Waker& on_ready) -> Result<std::unique_ptr<AnswerFeed>> {
      if (refuses_) {
        return fail(ErrorCode::kResourceExhausted, "the queue is full");
      }
      computations_.push_back(std::make_shared<Computation>());
      computations_.back()->on_ready = on_ready;
      computations_.back()->n_choices = n_choices_;
      return std::make_unique<ComputationFeed>(computations_.back());
    };
    question.wake = [this] { ++n_wakes_; };
    return question;
  }
  Client ask(int key = 1, CacheUse use = {true, true}, QueuePlace place = {}) {
    Client client;
    auto feed = cache_.answer(question(key, use, place));
    EXPECT_TRUE(feed);
    client.feed = std::move(*feed);
    client.pull();
    return client;
  }
  Computation& computation(size_t i) { return *computations_.at(i); }
  double counted(const char* outcome) {
    return metrics_.counter("millrace_response_cache_requests_total", "", {{"outcome", outcome}})
        .value();
  }

  Metrics metrics_;
  ResponseCache cache_{{.memory_bytes = 1 << 20}, metrics_};
  std::vector<std::shared_ptr<Computation>> computations_;
  int n_choices_ = 1;
  int n_wakes_ = 0;
  bool refuses_ = false;
};

TEST_F(ResponseCacheTest, a_whole_answer_is_replayed_and_not_computed_again) {
  Client first = ask();
  EXPECT_EQ(first.feed->cache_outcome(), CacheOutcome::kMiss);
  computation(0).token(0, 5);
  computation(0).token(0, 6);
  computation(0).finish(0);
  EXPECT_TRUE(first.is_whole());
  Client second = ask();
  EXPECT_EQ(second.feed->cache_outcome(), CacheOutcome::kHit);
  EXPECT_TRUE(second.is_whole());
  EXPECT_EQ(second.seen(), (Ids{5, 6}));
  EXPECT_EQ(second.ends[0].usage.prompt_tokens, 9);
  ask(2);
  EXPECT_EQ(computations_.size(), 2u);
  EXPECT_EQ(counted("miss"), 2);
  EXPECT_EQ(counted("hit"), 1);
  EXPECT_EQ(
      metrics_.counter("millrace_response_cache_hits_total", "", {{"tier", "memory"}}).value(), 1);
}

TEST_F(ResponseCacheTest,
       equal_requests_at_the_same_time_compute_once_and_all_see_tokens_as_they_come) {
  Client leader = ask();
  computation(0).token(0, 5);
  Client early = ask();
  EXPECT_EQ(early.seen(), Ids{5});  // also what the leader has not looked at
  computation(0).token(0, 6);
  EXPECT_EQ(leader.seen(), (Ids{5, 6}));
  EXPECT_EQ(early.seen(), (Ids{5, 6}));
  Client late = ask();
  EXPECT_EQ(late.seen(), (Ids{5, 6}));
  n_wakes_ = 0;
  computation(0).finish(0);
  EXPECT_EQ(n_wakes_, 3);
  for (Client* client : {&late, &early, &leader}) {
    EXPECT_TRUE(client->is_whole());
    EXPECT_EQ(client->seen(), (Ids{5, 6}));
  }
  EXPECT_EQ(computations_.size(), 1u);
  EXPECT_EQ(late.feed->cache_outcome(), CacheOutcome::kHit);
  EXPECT_EQ(counted("shared"), 2);
  EXPECT_EQ(counted("miss"), 1);
}

TEST_F(ResponseCacheTest, an_urgent_request_does_not_wait_for_one_that_has_not_begun) {
  Client patient = ask(1, {true, true}, {.priority = 5});
  Client equal = ask(1, {true, true}, {.priority = 5});
  Client humble = ask(1, {true, true}, {.priority = 6});
  EXPECT_EQ(computations_.size(), 1u);
  Client urgent = ask(1, {true, true}, {.priority = -1});
  ASSERT_EQ(computations_.size(), 2u);
  EXPECT_EQ(urgent.feed->cache_outcome(), CacheOutcome::kMiss);
  Client late = ask();  // joins the one that comes first
  EXPECT_EQ(computations_.size(), 2u);
  computation(1).token(0, 5);
  computation(1).finish(0);
  EXPECT_TRUE(urgent.is_whole());
  EXPECT_TRUE(late.is_whole());
  EXPECT_EQ(ask().feed->cache_outcome(), CacheOutcome::kHit);
  // The others still have theirs, and its end puts nothing in the way.
  EXPECT_TRUE(patient.seen().empty());
  computation(0).token(0, 5);
  computation(0).finish(0);
  for (Client* client : {&patient, &equal, &humble}) {
    EXPECT_TRUE(client->is_whole());
    EXPECT_EQ(client->seen(), Ids{5});
  }
  EXPECT_EQ(ask().feed->cache_outcome(), CacheOutcome::kHit);
  EXPECT_EQ(computations_.size(), 2u);
  EXPECT_EQ(counted("miss"), 2);
  EXPECT_EQ(counted("shared"), 3);
}

TEST_F(ResponseCacheTest, an_urgent_request_joins_what_has_begun_or_what_it_cannot_overtake) {
  Client begun = ask(1, {true, true}, {.priority = 5});
  computation(0).token(0, 5);
  EXPECT_EQ(begun.seen(), Ids{5});
  EXPECT_EQ(ask(1, {true, true}, {.priority = -1}).seen(), Ids{5});
  Client waiting = ask(2, {true, true}, {.priority = 5});
  refuses_ = true;
  Client urgent = ask(2, {true, true}, {.priority = -1});
  computation(1).token(0, 7);
  EXPECT_EQ(urgent.seen(), Ids{7});
  EXPECT_EQ(ask(2, {true, true}, {.priority = 5}).seen(), Ids{7});
  EXPECT_EQ(computations_.size(), 2u);
}

TEST_F(ResponseCacheTest, an_urgent_request_that_comes_to_nothing_takes_nobody_else_s_place) {
  Client patient = ask(1, {true, true}, {.priority = 5});
  Client urgent = ask(1, {true, true}, {.priority = 0});
  Client hasty = ask(1, {true, true}, {.priority = -1});
  urgent.feed.reset();
  hasty.feed.reset();
  EXPECT_TRUE(computation(1).is_cancelled);
  EXPECT_TRUE(computation(2).is_cancelled);
  Client late = ask(1, {true, true}, {.priority = 5});
  EXPECT_EQ(computations_.size(), 3u);
  computation(0).token(0, 5);
  computation(0).finish(0);
  EXPECT_TRUE(late.is_whole());
  EXPECT_TRUE(patient.is_whole());
  EXPECT_EQ(late.seen(), Ids{5});
}

TEST_F(ResponseCacheTest, who_waits_for_an_urgent_start_that_fails_joins_what_it_cannot_overtake) {
  Client patient = ask(1, {true, true}, {.priority = 5});
  refuses_ = true;
  Client late;
  std::thread thread;
  CacheQuestion urgent = question(1, {true, true}, {.priority = -1});
  urgent.compute = [&](const Waker&) -> Result<std::unique_ptr<AnswerFeed>> {
    thread = std::thread([&] { late = ask(1, {true, true}, {.priority = -1}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // as a rule it waits by now
    return fail(ErrorCode::kResourceExhausted, "the queue is full");
  };
  const auto feed = cache_.answer(std::move(urgent));
  thread.join();
  EXPECT_TRUE(feed);
  computation(0).token(0, 5);
  EXPECT_EQ(late.seen(), Ids{5});
  EXPECT_EQ(computations_.size(), 1u);
  EXPECT_EQ(counted("shared"), 2);
}

TEST_F(ResponseCacheTest, a_client_waits_for_nothing_that_another_has_queued) {
  constexpr CacheUse kUse{true, true};
  Client flooder = ask(1, kUse, {.client = 1});
  Client other = ask(1, kUse, {.client = 2, .priority = 5});  // none of the flooder's priorities
  ASSERT_EQ(computations_.size(), 2u);
  EXPECT_EQ(other.feed->cache_outcome(), CacheOutcome::kMiss);
  Client own = ask(1, kUse, {.client = 1});  // each finds their own
  Client others_own = ask(1, kUse, {.client = 2, .priority = 6});
  EXPECT_EQ(computations_.size(), 2u);
  computation(0).token(0, 5);
  EXPECT_EQ(flooder.seen(), Ids{5});
  EXPECT_EQ(own.seen(), Ids{5});
  EXPECT_EQ(others_own.seen(), Ids{});
  Client third = ask(1, kUse, {.client = 3});  // what has begun delays nobody
  EXPECT_EQ(third.seen(), Ids{5});
  computation(1).token(0, 5);
  for (size_t i : {1u, 0u}) {
    computation(i).finish(0);
  }
  for (Client* client : {&flooder, &other, &own, &others_own, &third}) {
    EXPECT_TRUE(client->is_whole());
    EXPECT_EQ(client->seen(), Ids{5});
  }
  EXPECT_EQ(ask(1, kUse, {.client = 4}).feed->cache_outcome(), CacheOutcome::kHit);
  EXPECT_EQ(computations_.size(), 2u);
  EXPECT_EQ(counted("shared"), 3);
}

TEST_F(ResponseCacheTest, the_computation_goes_on_while_anybody_waits_for_it) {
  Client leader = ask();
  Client follower = ask();
  computation(0).token(0, 5);
  leader.feed.reset();
  EXPECT_FALSE(computation(0).is_cancelled);
  computation(0).token(0, 6);
  Client joined = ask();
  computation(0).finish(0);
  EXPECT_TRUE(follower.is_whole());
  EXPECT_EQ(follower.seen(), (Ids{5, 6}));
  EXPECT_TRUE(joined.is_whole());
  EXPECT_EQ(joined.seen(), (Ids{5, 6}));
  EXPECT_EQ(computations_.size(), 1u);
}

TEST_F(ResponseCacheTest, the_computation_ends_when_the_last_one_leaves_and_is_not_kept) {
  Client leader = ask();
  Client follower = ask();
  computation(0).token(0, 5);
  leader.feed.reset();
  follower.feed.reset();
  EXPECT_TRUE(computation(0).is_cancelled);
  Client next = ask();
  EXPECT_EQ(computations_.size(), 2u);
  EXPECT_EQ(next.seen(), Ids{});
}

// A full server is not made fuller by everybody who waited for the same.
TEST_F(ResponseCacheTest, a_failure_is_told_to_all_who_wait_and_not_computed_again_for_any) {
  n_choices_ = 2;
  Client leader = ask();
  Client early = ask();
  computation(0).token(0, 5);
  computation(0).token(1, 50);
  EXPECT_EQ(early.seen(), Ids{5});
  Client late = ask();
  computation(0).token(0, 6);
  computation(0).finish(1, FinishReason::kError);
  for (Client* client : {&late, &early, &leader}) {
    EXPECT_EQ(client->seen(0), (Ids{5, 6}));
    EXPECT_EQ(client->seen(1), Ids{50});
    ASSERT_EQ(client->ends.size(), 1u);
    EXPECT_EQ(client->ends[0].reason, FinishReason::kError);
    EXPECT_EQ(client->ends[0].error.message, "broken");
    EXPECT_TRUE(client->feed->is_finished());
  }
  EXPECT_EQ(computations_.size(), 1u);
  Client next = ask();  // nothing was kept
  EXPECT_EQ(computations_.size(), 2u);
  EXPECT_EQ(next.feed->cache_outcome(), CacheOutcome::kMiss);
  EXPECT_EQ(counted("miss"), 2);
}

TEST_F(ResponseCacheTest, a_refused_start_is_an_error_at_once_and_leaves_nothing_behind) {
  refuses_ = true;
  auto refused = cache_.answer(question());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  refuses_ = false;
  Client next = ask();
  EXPECT_EQ(computations_.size(), 1u);
  EXPECT_EQ(next.feed->cache_outcome(), CacheOutcome::kMiss);
}

TEST_F(ResponseCacheTest, no_store_is_neither_read_nor_joined_nor_kept) {
  Client first = ask(1, {});
  Client second = ask(1, {});
  EXPECT_EQ(first.feed->cache_outcome(), CacheOutcome::kBypass);
  EXPECT_EQ(computations_.size(), 2u);
  computation(0).finish(0);
  EXPECT_TRUE(first.is_whole());
  ask(1);
  EXPECT_EQ(computations_.size(), 3u);
  EXPECT_EQ(counted("bypass"), 2);
}

TEST_F(ResponseCacheTest, no_cache_computes_anew_and_is_kept) {
  Client first = ask();
  computation(0).token(0, 5);
  computation(0).finish(0);
  EXPECT_TRUE(first.is_whole());
  Client fresh = ask(1, {.reads = false, .writes = true});
  EXPECT_EQ(fresh.feed->cache_outcome(), CacheOutcome::kMiss);
  Client other = ask(1, {.reads = false, .writes = true});
  ASSERT_EQ(computations_.size(), 3u);
  computation(1).token(0, 6);
  computation(1).finish(0);
  EXPECT_TRUE(fresh.is_whole());
  EXPECT_EQ(ask().seen(), Ids{6});
  EXPECT_EQ(computations_.size(), 3u);
}

TEST_F(ResponseCacheTest, an_answer_above_its_share_is_delivered_and_not_kept) {
  Client first = ask();
  Client follower = ask();
  for (TokenId id = 0; id < 20; ++id) {
    computation(0).token(0, id, 10'000);
    first.pull();
    if (id % 5 == 0) {
      follower.pull();
    }
  }
  Client late = ask();  // too late to join: the beginning is gone
  EXPECT_EQ(computations_.size(), 2u);
  computation(0).finish(0);
  EXPECT_TRUE(follower.is_whole());
  EXPECT_TRUE(first.is_whole());
  EXPECT_EQ(first.seen().size(), 20u);
  EXPECT_EQ(follower.seen(), first.seen());
  EXPECT_EQ(metrics_.counter("millrace_response_cache_too_large_total", "").value(), 1);
  late.feed.reset();
  ask();
  EXPECT_EQ(computations_.size(), 3u);
}

TEST_F(ResponseCacheTest, many_threads_see_the_same_answers) {
  struct Answers {
    std::mutex mutex;
    std::vector<std::thread> threads;
    int n = 0;
  } computing;
  const auto compute = [&](int key) {
    return [&computing, key](const Waker& on_ready) -> Result<std::unique_ptr<AnswerFeed>> {
      auto computation = std::make_shared<Computation>();
      computation->on_ready = on_ready;
      auto feed = std::make_unique<ComputationFeed>(computation);
      const std::lock_guard lock(computing.mutex);
      ++computing.n;
      computing.threads.emplace_back([computation, key, fails = computing.n % 5 == 0] {
        for (TokenId id = 0; id < 20; ++id) {
          computation->token(0, key * 20 + id);
        }
        computation->finish(0, fails ? FinishReason::kError : FinishReason::kStop);
      });
      return feed;
    };
  };
  std::atomic<int> n_failed{0};
  std::vector<std::thread> clients;
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const int key = (i + t) / 3;
        CacheQuestion asked = question(
            key, {.reads = i % 7 != 0, .writes = true}, {.client = t % 2, .priority = i % 5});
        asked.compute = compute(key);
        const auto n_wakes = std::make_shared<std::atomic<int>>(0);
        asked.wake = [n_wakes] {
          ++*n_wakes;
          n_wakes->notify_one();
        };
        Client client;
        client.feed = std::move(*cache_.answer(std::move(asked)));
        while (true) {
          const int seen = n_wakes->load();
          client.pull();
          if (client.feed->is_finished() || (i % 11 == 0 && client.ids[0].size() > 3)) {
            break;
          }
          n_wakes->wait(seen);
        }
        for (size_t n = 0; n < client.ids[0].size(); ++n) {
          EXPECT_EQ(client.ids[0][n], key * 20 + static_cast<TokenId>(n));
        }
        n_failed += client.ends.empty() || client.ends[0].reason == FinishReason::kStop ? 0 : 1;
        client.feed.reset();
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  for (std::thread& thread : computing.threads) {
    thread.join();
  }
  EXPECT_GT(counted("hit"), 0);
  EXPECT_LT(n_failed, computing.n);
}

}  // namespace
}  // namespace millrace

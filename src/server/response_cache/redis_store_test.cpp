#include "server/response_cache/redis_store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "server/response_cache/redis_testing.h"

namespace millrace {
namespace {

constexpr Digest256 kKey{std::byte{7}};
constexpr AnswerShape kShape{.n_choices = 1, .n_vocab = 100};

std::string some_record(TokenId token) {
  std::string record;
  append_event(record, {0, TokenEvent{.token = token, .text = "t"}});
  append_event(record, {0, FinishEvent{.reason = FinishReason::kLength}});
  return record;
}

// Standard error, to be read while it is written.
class ErrorPipe {
 public:
  ErrorPipe() : kept_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe(ends_), 0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~ErrorPipe() {
    ::dup2(kept_, STDERR_FILENO);
    for (const int descriptor : {kept_, ends_[0], ends_[1]}) {
      ::close(descriptor);
    }
  }
  ErrorPipe(const ErrorPipe&) = delete;
  ErrorPipe& operator=(const ErrorPipe&) = delete;

  // Within ten seconds of silence.
  bool says(std::string_view text) {
    pollfd waiting{ends_[0], POLLIN, 0};
    while (said_.find(text) == std::string::npos && ::poll(&waiting, 1, 10'000) > 0) {
      char bytes[4096];
      const ssize_t n = ::read(ends_[0], bytes, sizeof(bytes));
      said_.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
    }
    return said_.find(text) != std::string::npos;
  }

 private:
  const int kept_;
  int ends_[2] = {-1, -1};
  std::string said_;
};

class RedisStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis()) {
      GTEST_SKIP() << "needs redis-server (scripts/install-deps --test)";
    }
    server_ = std::make_unique<RedisServer>();
    store_ = make_store(1);
  }

  // `weights` stands for all that servers must have in common. A busy machine is no slow Redis.
  RedisStoreOptions options(int weights) const {
    return {.address = server_->address(),
            .make_namespace =
                [weights](const auto&) { return Digest256{static_cast<std::byte>(weights)}; },
            .read_limit = std::chrono::seconds(20),
            .batch_limit = std::chrono::seconds(20),
            .farewell_limit = std::chrono::seconds(20)};
  }
  std::unique_ptr<RedisStore> make_store(int weights) { return make_store(options(weights)); }
  std::unique_ptr<RedisStore> make_store(RedisStoreOptions options) {
    auto store = std::make_unique<RedisStore>(std::move(options), metrics_);
    EXPECT_TRUE(wait_until([&] { return store->find(kKey, kShape, [] {}) != nullptr; }));
    return store;
  }
  static SharedRecord find(RedisStore& store, AnswerShape shape = kShape) {
    std::atomic<int> n_wakes{0};
    const auto lookup = store.find(kKey, shape, [&] { ++n_wakes; });
    if (lookup == nullptr) {
      return nullptr;
    }
    EXPECT_TRUE(wait_until([&] { return n_wakes > 0; }));
    EXPECT_TRUE(lookup->is_done());
    return lookup->take();
  }
  double errors(const char* kind) {
    return metrics_.counter("millrace_response_cache_redis_errors_total", "", {{"kind", kind}})
        .value();
  }
  bool is_up() { return metrics_.gauge("millrace_response_cache_redis_up", "").value() == 1; }
  // The one key that the store has written.
  std::string only_key() { return server_->ask({"RANDOMKEY"}); }

  Metrics metrics_;
  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<RedisStore> store_;
};

TEST_F(RedisStoreTest, gives_one_server_what_another_has_put) {
  EXPECT_EQ(find(*store_), nullptr);
  const std::string record = some_record(5);
  store_->put(kKey, std::make_shared<std::string>(record));
  ASSERT_TRUE(wait_until([&] { return !only_key().empty(); }));
  EXPECT_EQ(only_key().rfind("millrace:response:1:", 0), 0u);
  const auto other = make_store(1);
  const SharedRecord found = find(*other);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, record);
  EXPECT_EQ(errors("reply") + errors("record") + errors("dropped"), 0);
}

TEST_F(RedisStoreTest, does_not_give_what_other_weights_have_said) {
  store_->put(kKey, std::make_shared<std::string>(some_record(5)));
  ASSERT_TRUE(wait_until([&] { return !only_key().empty(); }));
  const auto other = make_store(2);
  EXPECT_EQ(find(*other), nullptr);
  EXPECT_EQ(errors("record"), 0);
}

TEST_F(RedisStoreTest, takes_what_is_no_record_of_this_request_for_nothing) {
  store_->put(kKey, std::make_shared<std::string>(some_record(5)));
  ASSERT_TRUE(wait_until([&] { return !only_key().empty(); }));
  const std::string key = only_key();
  const std::string whole = server_->ask({"GET", key});
  EXPECT_NE(find(*store_), nullptr);
  EXPECT_EQ(find(*store_, {.n_choices = 2, .n_vocab = 100}), nullptr);
  EXPECT_EQ(find(*store_, {.n_choices = 1, .n_vocab = 5}), nullptr);
  EXPECT_EQ(errors("record"), 2);
  std::string flipped = whole;
  flipped[60] ^= 1;
  std::string other_version = whole;
  other_version[4] ^= 3;
  const std::vector<std::string> garbage = {"garbage",
                                            whole.substr(0, whole.size() - 1),
                                            whole + "x",
                                            flipped,
                                            other_version,
                                            std::string(RedisStore::kMaxRecordBytes * 2, 'g')};
  for (const std::string& bytes : garbage) {
    server_->ask({"SET", key, bytes});
    EXPECT_EQ(find(*store_), nullptr) << bytes.substr(0, 100);
  }
  EXPECT_EQ(errors("record"), 2.0 + static_cast<double>(garbage.size()));
  server_->ask({"DEL", key});
  server_->ask({"RPUSH", key, "a list"});
  EXPECT_EQ(find(*store_), nullptr);
  EXPECT_EQ(errors("reply"), 1);
  server_->ask({"SET", key, whole});
  EXPECT_NE(find(*store_), nullptr);
}

TEST_F(RedisStoreTest, that_has_lost_its_server_asks_nobody_and_comes_back_with_it) {
  server_->kill();
  ASSERT_TRUE(wait_until([&] { return !is_up(); }));
  EXPECT_GT(errors("connection"), 0);
  EXPECT_EQ(store_->find(kKey, kShape, [] {}), nullptr);
  store_->put(kKey, std::make_shared<std::string>(some_record(5)));  // lost
  server_->start();
  ASSERT_TRUE(wait_until([&] { return is_up(); }));
  store_->put(kKey, std::make_shared<std::string>(some_record(6)));
  ASSERT_TRUE(wait_until([&] { return find(*store_) != nullptr; }));
  EXPECT_EQ(*find(*store_), some_record(6));
}

TEST_F(RedisStoreTest, finishes_questions_that_a_hanging_server_does_not_answer) {
  RedisStoreOptions impatient_options = options(3);
  impatient_options.read_limit = std::chrono::milliseconds(50);
  const auto impatient = make_store(std::move(impatient_options));
  server_->freeze();
  std::atomic<int> n_wakes{0};
  int n_asked = 0;
  while (const auto lookup = impatient->find(kKey, kShape, [&] { ++n_wakes; })) {
    ++n_asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(n_asked, 0);
  EXPECT_EQ(n_wakes, n_asked);
  server_->thaw();
  EXPECT_GT(errors("connection"), 0);
}

// However many ask at once, and however large the answers.
TEST_F(RedisStoreTest, answers_many_at_once) {
  constexpr int kRecords = RedisStore::kMaxBatch + 4;
  std::string large;
  append_event(large, {0, TokenEvent{.token = 1, .text = std::string(300'000, 'x')}});
  append_event(large, {0, FinishEvent{.reason = FinishReason::kLength}});
  const auto record = std::make_shared<const std::string>(large);
  const auto key = [](int i) { return Digest256{static_cast<std::byte>(i)}; };
  for (int i = 0; i < kRecords; ++i) {
    store_->put(key(i), record);
  }
  ASSERT_TRUE(wait_until([&] { return server_->n_keys() == kRecords; }));
  std::atomic<int> n_wakes{0};
  std::vector<std::shared_ptr<RedisLookup>> lookups;
  for (int i = 0; i < kRecords; ++i) {
    lookups.push_back(store_->find(key(i), kShape, [&] { ++n_wakes; }));
    ASSERT_NE(lookups.back(), nullptr);
  }
  ASSERT_TRUE(wait_until([&] { return n_wakes == kRecords; }));
  for (const auto& lookup : lookups) {
    const SharedRecord found = lookup->take();
    ASSERT_NE(found, nullptr);
    EXPECT_TRUE(*found == large);
  }
  EXPECT_EQ(errors("connection") + errors("record"), 0);
}

TEST_F(RedisStoreTest, counts_what_finds_no_room_in_the_queue) {
  RedisStoreOptions patient = options(1);
  patient.write_limit = std::chrono::hours(1);
  patient.farewell_limit = {};
  const auto store = make_store(std::move(patient));
  server_->freeze();
  const auto record = std::make_shared<const std::string>(RedisStore::kMaxRecordBytes, 'r');
  constexpr int kRoom = RedisStore::kMaxQueuedBytes / RedisStore::kMaxRecordBytes;
  for (int i = 0; i < kRoom; ++i) {
    store->put({static_cast<std::byte>(i)}, record);
  }
  EXPECT_EQ(errors("dropped"), 0);
  for (int i = 0; i < 3; ++i) {
    store->put(kKey, record);
  }
  EXPECT_EQ(errors("dropped"), 3);
  store->put(kKey, std::make_shared<const std::string>(RedisStore::kMaxRecordBytes + 1, 'r'));
  EXPECT_EQ(errors("dropped"), 3);  // never would be written
}

TEST_F(RedisStoreTest, counts_what_was_queued_for_a_server_that_has_gone) {
  RedisStoreOptions impatient = options(1);
  impatient.write_limit = std::chrono::milliseconds(200);
  const auto store = make_store(std::move(impatient));
  server_->freeze();
  for (int i = 0; i < 5; ++i) {
    store->put({static_cast<std::byte>(i)}, std::make_shared<std::string>(some_record(5)));
  }
  server_->kill();
  EXPECT_TRUE(wait_until([&] { return errors("dropped") == 5; })) << errors("dropped");
}

TEST_F(RedisStoreTest, writes_what_is_queued_before_it_ends) {
  constexpr int kRecords = 20;
  const auto record = std::make_shared<const std::string>(RedisStore::kMaxRecordBytes, 'r');
  for (int i = 0; i < kRecords; ++i) {
    store_->put({static_cast<std::byte>(i)}, record);
  }
  store_.reset();
  EXPECT_EQ(server_->n_keys(), kRecords);
  EXPECT_EQ(errors("dropped"), 0);
}

// With an hour for each write, this test is over soon only if nobody waits for them.
TEST_F(RedisStoreTest, ends_soon_though_its_server_hangs) {
  RedisStoreOptions patient = options(1);
  patient.write_limit = std::chrono::hours(1);
  patient.read_limit = patient.batch_limit = std::chrono::hours(1);
  patient.farewell_limit = std::chrono::milliseconds(100);
  auto store = make_store(std::move(patient));
  store->put(kKey, std::make_shared<std::string>(some_record(5)));
  ASSERT_TRUE(wait_until([&] { return server_->n_keys() == 1; }));  // both connections are open
  server_->freeze();
  std::atomic<int> n_wakes{0};
  const auto lookup = store->find(kKey, kShape, [&] { ++n_wakes; });
  for (int i = 0; i < 3; ++i) {
    store->put({static_cast<std::byte>(i)}, std::make_shared<std::string>(some_record(5)));
  }
  store.reset();
  EXPECT_EQ(n_wakes, 1);
  EXPECT_EQ(lookup->take(), nullptr);
  EXPECT_EQ(errors("dropped"), 3);  // with the one that was on its way
  server_->thaw();
}

// With an hour for each lookup, this test is over soon only if nobody waits for them.
TEST_F(RedisStoreTest, stops_looking_when_told_to_and_still_writes) {
  RedisStoreOptions patient = options(1);
  patient.read_limit = patient.batch_limit = std::chrono::hours(1);
  auto store = make_store(std::move(patient));
  server_->freeze();
  std::atomic<int> n_wakes{0};
  constexpr int kLookups = 2 * static_cast<int>(RedisStore::kMaxBatch);  // asked for and queued
  std::vector<std::shared_ptr<RedisLookup>> lookups;
  for (int i = 0; i < kLookups; ++i) {
    lookups.push_back(store->find(kKey, kShape, [&] { ++n_wakes; }));
    ASSERT_NE(lookups.back(), nullptr);
  }
  store->stop_looking();
  EXPECT_TRUE(wait_until([&] { return n_wakes == kLookups; }));
  for (const auto& lookup : lookups) {
    EXPECT_TRUE(lookup->is_done());
    EXPECT_EQ(lookup->take(), nullptr);
  }
  EXPECT_EQ(store->find(kKey, kShape, [] {}), nullptr);
  EXPECT_EQ(errors("connection"), 0);
  server_->thaw();
  store->put(kKey, std::make_shared<std::string>(some_record(5)));
  store.reset();
  EXPECT_EQ(server_->n_keys(), 1);
}

TEST_F(RedisStoreTest, logs_what_redis_says_in_an_error_once) {
  server_->ask({"CONFIG", "SET", "maxmemory", "1"});
  testing::internal::CaptureStderr();
  for (int i = 1; i <= 3; ++i) {
    store_->put({static_cast<std::byte>(i)}, std::make_shared<std::string>(some_record(5)));
    EXPECT_TRUE(wait_until([&] { return errors("reply") == i; }));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t at = log.find("Redis says: OOM command not allowed");
  EXPECT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find("Redis says", at + 1), std::string::npos) << log;
}

TEST_F(RedisStoreTest, that_cannot_know_its_namespace_says_so_unless_it_stops) {
  RedisStoreOptions nameless = options(1);
  nameless.make_namespace = [](const auto&) {
    return fail(ErrorCode::kIo, "the program cannot be read");
  };
  {
    ErrorPipe log;
    RedisStore store(nameless, metrics_);
    EXPECT_TRUE(log.says("Redis is not used: the program cannot be read"));
    EXPECT_EQ(store.find(kKey, kShape, [] {}), nullptr);
  }
  nameless.make_namespace = [](const std::atomic<bool>& is_stopping) {
    while (!is_stopping) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return fail(ErrorCode::kCancelled, "stopped");
  };
  testing::internal::CaptureStderr();
  { RedisStore store(nameless, metrics_); }
  const std::string log = testing::internal::GetCapturedStderr();  // of the other store too
  EXPECT_EQ(log.find("Redis is not used"), std::string::npos) << log;
}

}  // namespace
}  // namespace millrace

#include "server/response_cache/redis_store.h"

#include <gtest/gtest.h>

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
  std::unique_ptr<RedisStore> make_store(
      int weights, std::chrono::milliseconds limit = std::chrono::seconds(5)) {
    auto store = std::make_unique<RedisStore>(
        RedisStoreOptions{
            .address = server_->address(),
            .make_namespace =
                [weights](const auto&) { return Digest256{static_cast<std::byte>(weights)}; },
            .read_limit = limit},
        metrics_);
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
  const auto impatient = make_store(3, std::chrono::milliseconds(50));
  server_->freeze();
  std::atomic<int> n_wakes{0};
  int n_asked = 0;
  while (const auto lookup = impatient->find(kKey, kShape, [&] { ++n_wakes; })) {
    ++n_asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(n_wakes, n_asked);
  server_->thaw();
  EXPECT_GT(errors("connection"), 0);
}

}  // namespace
}  // namespace millrace

#include "engine/token_stream.h"

#include <gtest/gtest.h>

#include <thread>

namespace millrace {
namespace {

StreamEvent token(TokenId id) {
  return {.body = TokenEvent{.token = id, .text = std::to_string(id)}};
}
StreamEvent last() {
  return {.choice = 1, .body = FinishEvent{.reason = FinishReason::kLength, .is_last = true}};
}

TEST(TokenStream, events_come_out_in_order_over_many_segments) {
  TokenStream stream({});
  StreamEvent event;
  EXPECT_FALSE(stream.try_next(event));
  for (TokenId id = 0; id < 100; ++id) {
    stream.push(token(id));
    if (id % 7 == 0) {
      EXPECT_TRUE(stream.try_next(event));
    }
  }
  TokenId next = 15;  // 0 .. 14 were read on the way
  while (stream.try_next(event)) {
    EXPECT_EQ(std::get<TokenEvent>(event.body).token, next++);
  }
  EXPECT_EQ(next, 100);
  stream.push(last());
  EXPECT_FALSE(stream.is_finished());
  EXPECT_TRUE(stream.try_next(event));
  EXPECT_EQ(event.choice, 1);
  EXPECT_TRUE(stream.is_finished());
  EXPECT_FALSE(stream.wait_next(event));
}

TEST(TokenStream, on_ready_calls_once_for_each_time_the_reader_found_nothing) {
  int calls = 0;
  TokenStream stream([&] { ++calls; });
  StreamEvent event;
  for (int step = 0; step < 3; ++step) {
    stream.push(token(step));
    stream.notify();
  }
  EXPECT_EQ(calls, 1);
  while (stream.try_next(event)) {
  }
  stream.push(token(9));
  EXPECT_EQ(calls, 1);
  stream.notify();
  stream.notify();
  EXPECT_EQ(calls, 2);
}

TEST(TokenStream, waiting_reader_gets_everything_a_writer_on_another_thread_sends) {
  TokenStream stream({});
  constexpr TokenId kTokens = 20'000;
  std::thread writer([&] {
    for (TokenId id = 0; id < kTokens; ++id) {
      stream.push(token(id));
      if (id % 3 == 0) {
        stream.notify();
      }
    }
    stream.push(last());
    stream.notify();
  });
  StreamEvent event;
  TokenId next = 0;
  while (stream.wait_next(event)) {
    if (const auto* body = std::get_if<TokenEvent>(&event.body)) {
      ASSERT_EQ(body->token, next);
      ASSERT_EQ(body->text, std::to_string(next));
      ++next;
    }
  }
  writer.join();
  EXPECT_EQ(next, kTokens);
}

TEST(TokenStream, polling_reader_is_always_called_again_after_it_found_nothing) {
  std::atomic<int> calls{0};
  TokenStream stream([&] {
    calls.fetch_add(1);
    calls.notify_one();
  });
  constexpr TokenId kTokens = 20'000;
  std::thread writer([&] {
    for (TokenId id = 0; id < kTokens; ++id) {
      stream.push(token(id));
      stream.notify();
    }
    stream.push(last());
    stream.notify();
  });
  StreamEvent event;
  int n_events = 0;
  int seen = 0;
  while (!stream.is_finished()) {
    calls.wait(seen);  // hangs if a call was lost
    seen = calls.load();
    while (stream.try_next(event)) {
      ++n_events;
    }
  }
  writer.join();
  EXPECT_EQ(n_events, kTokens + 1);
}

}  // namespace
}  // namespace millrace

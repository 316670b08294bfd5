#include "server/response_cache/answer_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace millrace {
namespace {

StreamEvent token(int choice, TokenId id, std::string text, std::vector<TopLogprob> top = {}) {
  return {choice, TokenEvent{id, std::move(text), -0.1F, std::move(top)}};
}

StreamEvent finish(int choice, FinishReason reason = FinishReason::kStop) {
  FinishEvent event{.reason = reason, .text = "tail"};
  event.usage = {1000, 999, 300, 4, 5};
  return {choice, event};
}

StreamEvent prompt(int choice) {
  return {choice, PromptEvent{{{7, NAN, {}}, {200, -1.5F, {{3, -0.25F}, {151'000, -1e-30F}}}}}};
}

std::string record_of(const std::vector<StreamEvent>& events) {
  std::string record;
  for (const StreamEvent& event : events) {
    append_event(record, event);
  }
  return record;
}

const std::vector<StreamEvent> kAnswer = {prompt(0),
                                          token(1, 0, "\xC3\xA9"),
                                          token(0, 151'935, "", {{1, -0.5F}, {2, -INFINITY}}),
                                          finish(1),
                                          finish(0, FinishReason::kLength)};
constexpr AnswerShape kShape{.n_choices = 2, .n_vocab = 151'936};

TEST(AnswerRecord, gives_back_every_event_bit_for_bit) {
  const std::string record = record_of(kAnswer);
  std::string_view rest = record;
  std::vector<StreamEvent> events;
  for (StreamEvent event; take_event(rest, event);) {
    events.push_back(event);
  }
  EXPECT_TRUE(rest.empty());
  ASSERT_EQ(events.size(), kAnswer.size());
  EXPECT_EQ(record_of(events), record);
  const auto& scores = std::get<PromptEvent>(events[0].body).entries;
  EXPECT_TRUE(std::isnan(scores[0].logprob));
  EXPECT_EQ(scores[1].token, 200);
  EXPECT_EQ(scores[1].top[1].token, 151'000);
  EXPECT_EQ(scores[1].top[1].logprob, -1e-30F);
  EXPECT_EQ(events[1].choice, 1);
  EXPECT_EQ(std::get<TokenEvent>(events[1].body).text, "\xC3\xA9");
  EXPECT_EQ(std::get<TokenEvent>(events[2].body).token, 151'935);
  EXPECT_EQ(std::get<TokenEvent>(events[2].body).logprob, -0.1F);
  const auto& end = std::get<FinishEvent>(events[4].body);
  EXPECT_EQ(end.reason, FinishReason::kLength);
  EXPECT_EQ(end.text, "tail");
  EXPECT_EQ(end.usage.prompt_tokens, 1000);
  EXPECT_EQ(end.usage.cached_tokens, 999);
  EXPECT_EQ(end.usage.completion_tokens, 300);
  EXPECT_EQ(end.usage.accepted_drafts, 4);
  EXPECT_EQ(end.usage.rejected_drafts, 5);
}

TEST(SealedRecord, opens_only_with_its_key_and_for_a_request_of_its_shape) {
  const Digest256 key{std::byte{1}};
  const std::string record = record_of(kAnswer);
  const std::string sealed = seal_record(key, record);
  EXPECT_EQ(sealed.size(), record.size() + kSealBytes);
  EXPECT_EQ(open_record(sealed, key, kShape), record);
  EXPECT_FALSE(open_record(sealed, Digest256{std::byte{2}}, kShape));
  EXPECT_FALSE(open_record(sealed, key, {.n_choices = 1, .n_vocab = 151'936}));
  EXPECT_FALSE(open_record(sealed, key, {.n_choices = 3, .n_vocab = 151'936}));
  EXPECT_FALSE(open_record(sealed, key, {.n_choices = 2, .n_vocab = 151'935}));
}

TEST(SealedRecord, is_none_when_a_bit_is_wrong_or_a_byte_is_missing_or_too_many) {
  const Digest256 key{std::byte{1}};
  const std::string sealed = seal_record(key, record_of(kAnswer));
  for (size_t i = 0; i < sealed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string broken = sealed;
      broken[i] = static_cast<char>(broken[i] ^ (1 << bit));
      EXPECT_FALSE(open_record(broken, key, kShape)) << i;
    }
    EXPECT_FALSE(open_record(std::string_view(sealed).substr(0, i), key, kShape)) << i;
    EXPECT_FALSE(open_record(std::string_view(sealed).substr(i + 1), key, kShape)) << i;
  }
  EXPECT_FALSE(open_record(sealed + "x", key, kShape));
}

// Whoever can write to the store can seal whatever they like.
TEST(SealedRecord, with_a_right_seal_must_still_hold_a_whole_answer) {
  const Digest256 key{};
  const auto opens = [&](const std::string& record) {
    return open_record(seal_record(key, record), key, kShape).has_value();
  };
  EXPECT_TRUE(opens(record_of(kAnswer)));
  EXPECT_TRUE(opens(record_of({finish(0), finish(1)})));
  EXPECT_FALSE(opens(""));
  EXPECT_FALSE(opens(record_of({finish(0)})));
  EXPECT_FALSE(opens(record_of({finish(0), finish(0)})));
  EXPECT_FALSE(opens(record_of({finish(0), token(0, 1, "a"), finish(1)})));
  EXPECT_FALSE(opens(record_of({token(2, 1, "a"), finish(0), finish(1)})));
  EXPECT_FALSE(opens(record_of({token(0, 1, "\xC3"), finish(0), finish(1)})));
  EXPECT_FALSE(opens(record_of({token(0, -1, "a"), finish(0), finish(1)})));
  EXPECT_FALSE(opens(record_of({token(0, 1, "a", {{151'936, 0}}), finish(0), finish(1)})));
  EXPECT_FALSE(opens(record_of({finish(0), finish(1, FinishReason::kError)})));
  StreamEvent endless = finish(1);
  std::get<FinishEvent>(endless.body).usage.prompt_tokens = INT64_MAX;
  EXPECT_FALSE(opens(record_of({finish(0), endless})));
  EXPECT_FALSE(opens(record_of({finish(0), finish(1, FinishReason::kCancelled)})));
  EXPECT_FALSE(opens(record_of(kAnswer) + std::string(1, '\0')));
}

TEST(SealedRecord, of_random_bytes_is_refused_without_harm) {
  std::mt19937 random(1);
  const std::string whole = record_of(kAnswer);
  for (int i = 0; i < 20'000; ++i) {
    std::string record = i % 2 == 0 ? whole : std::string(random() % 40, '\0');
    for (int change = 0; change < 4 && !record.empty(); ++change) {
      record[random() % record.size()] = static_cast<char>(random());
    }
    const Digest256 key{};
    const auto opened = open_record(seal_record(key, record), key, kShape);
    EXPECT_TRUE(!opened || *opened == record);
  }
}

}  // namespace
}  // namespace millrace

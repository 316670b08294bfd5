// Requests to a server with a response cache: what clients see.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "server/generation_testing.h"
#include "server/response_cache/redis_testing.h"

namespace millrace {
namespace {

using nlohmann::json;

constexpr const char* kHeader = "x-millrace-response-cache";

// Without what tells one answer from the next: id, time, and how it came about.
std::string comparable(const std::string& body) {
  const std::regex changing(
      R"("id":"[^"]*"|"created":\d+|"usage":\{.*?\}\}?(,"response_cache":"\w+")?\})");
  return std::regex_replace(body, changing, "");
}

json usage_of(const std::string& body) {
  const size_t at = body.rfind(R"("usage":{)");
  EXPECT_NE(at, std::string::npos) << body;
  int depth = 0;
  for (size_t end = at + 8; end < body.size(); ++end) {
    depth += body[end] == '{' ? 1 : body[end] == '}' ? -1 : 0;
    if (depth == 0) {
      return json::parse(body.substr(at + 8, end - at - 7));
    }
  }
  return {};
}

class CachedGenerationTest : public GenerationTest {
 protected:
  explicit CachedGenerationTest(EngineOptions options = {}, ApiKeys keys = {})
      : GenerationTest(
            std::move(options), ResponseCacheOptions{.memory_bytes = 8 << 20}, std::move(keys)) {}

  double counted_outcome(const char* outcome) {
    return engine_.metrics
        .counter("millrace_response_cache_requests_total", "", {{"outcome", outcome}})
        .value();
  }
  int64_t n_generated() { return engine_.engine->stats().generated_tokens; }
};

struct Case {
  const char* path;
  const char* fields;
};
const Case kCases[] = {
    {"/v1/completions", R"("prompt":[5,6,7],"max_tokens":24,"temperature":0)"},
    {"/v1/completions", R"("prompt":[5,6,7],"max_tokens":24,"seed":3,"ignore_eos":true)"},
    {"/v1/completions",
     R"("prompt":"abc","max_tokens":16,"seed":3,"n":2,"logprobs":3,"stop":["e","zq"])"},
    {"/v1/completions", R"("prompt":"abc","max_tokens":8,"seed":4,"echo":true,"logprobs":2)"},
    {"/v1/completions", R"("prompt":"abc","max_tokens":0,"temperature":0,"echo":true)"},
    {"/v1/completions", R"("prompt":[[1,2],[3],"x"],"max_tokens":12,"seed":5,"n":2)"},
    {"/v1/chat/completions",
     R"("messages":[{"role":"user","content":"hi"}],"max_tokens":20,"temperature":0)"},
    {"/v1/chat/completions",
     R"("messages":[{"role":"user","content":"hi"}],"max_tokens":20,"seed":-2,"n":2,"logprobs":true,"top_logprobs":4)"},
};

TEST_F(CachedGenerationTest, an_answer_from_the_cache_has_the_bytes_of_the_first_streamed_or_not) {
  for (const Case& one : kCases) {
    for (const bool first_streams : {true, false}) {
      set_cache({.memory_bytes = 8 << 20});
      const std::string whole = fmt::format("{{{}}}", one.fields);
      const std::string stream = fmt::format(
          R"({{{},"stream":true,"stream_options":{{"include_usage":true}}}})", one.fields);
      const Exchange first = ask(one.path, first_streams ? stream : whole);
      ASSERT_EQ(first.response.status, 200) << first.response.body;
      EXPECT_EQ(first.header(kHeader), "miss") << one.fields;
      EXPECT_EQ(usage_of(first.response.body)["response_cache"], "miss");
      const int64_t n_before = n_generated();
      const Exchange streamed = ask(one.path, stream);
      const Exchange answered = ask(one.path, whole);
      EXPECT_EQ(n_generated(), n_before);
      for (const Exchange* replayed : {&streamed, &answered}) {
        EXPECT_EQ(replayed->header(kHeader), "hit") << one.fields;
        const json usage = usage_of(replayed->response.body);
        EXPECT_EQ(usage["response_cache"], "hit");
        EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]);
        EXPECT_EQ(usage["completion_tokens_details"]["accepted_prediction_tokens"], 0);
        EXPECT_EQ(usage["completion_tokens_details"]["rejected_prediction_tokens"], 0);
        EXPECT_EQ(usage["completion_tokens"], usage_of(first.response.body)["completion_tokens"]);
        EXPECT_EQ(usage["prompt_tokens"], usage_of(first.response.body)["prompt_tokens"]);
      }
      const Exchange& same = first_streams ? streamed : answered;
      EXPECT_EQ(comparable(same.response.body), comparable(first.response.body)) << one.fields;
    }
  }
}

TEST_F(CachedGenerationTest, with_a_deadline_answers_are_found_and_none_is_left) {
  const std::string plain = fmt::format("{{{}}}", kCases[0].fields);
  const std::string hurried = fmt::format(R"({{{},"timeout_ms":86400000}})", kCases[0].fields);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ask(kCases[0].path, hurried).header(kHeader), "bypass");
  }
  const Exchange first = ask(kCases[0].path, plain);
  EXPECT_EQ(first.header(kHeader), "miss");
  const int64_t n_before = n_generated();
  const Exchange found = ask(kCases[0].path, hurried);
  EXPECT_EQ(found.header(kHeader), "hit");
  EXPECT_EQ(comparable(found.response.body), comparable(first.response.body));
  EXPECT_EQ(n_generated(), n_before);
}

TEST_F(CachedGenerationTest, a_stream_replays_the_answer_that_was_not_streamed) {
  for (const Case& one : kCases) {
    set_cache({.memory_bytes = 8 << 20});
    const std::string stream = fmt::format(R"({{{},"stream":true}})", one.fields);
    const Exchange computed = ask(one.path, stream, {{"Cache-Control", "no-store"}});
    EXPECT_EQ(computed.header(kHeader), "bypass");
    ask(one.path, fmt::format("{{{}}}", one.fields));
    const Exchange replayed = ask(one.path, stream);
    EXPECT_EQ(replayed.header(kHeader), "hit");
    // The choices of a stream may come in another order, each choice may not.
    for (int choice = 0; choice < 6; ++choice) {
      const auto lines_of = [choice](const std::string& body) {
        std::string lines;
        size_t at = 0;
        while (at < body.size()) {
          const size_t end = body.find("\n\n", at);
          const std::string line = body.substr(at, end - at);
          at = end + 2;
          if (line.find(fmt::format(R"("index":{},)", choice)) != std::string::npos) {
            lines += comparable(line) + '\n';
          }
        }
        return lines;
      };
      EXPECT_EQ(lines_of(replayed.response.body), lines_of(computed.response.body)) << one.fields;
    }
  }
}

TEST_F(CachedGenerationTest, only_answers_that_are_a_function_of_the_request_are_kept) {
  for (const char* fields : {"", R"(,"temperature":1)", R"(,"temperature":0.5,"top_k":1)"}) {
    const std::string body = fmt::format(R"({{"prompt":[1],"max_tokens":2{}}})", fields);
    EXPECT_EQ(ask("/v1/completions", body).header(kHeader), "bypass");
    EXPECT_EQ(ask("/v1/completions", body).header(kHeader), "bypass");
  }
  EXPECT_EQ(counted_outcome("bypass"), 6);
  EXPECT_EQ(counted_outcome("hit") + counted_outcome("miss") + counted_outcome("shared"), 0);
}

TEST_F(CachedGenerationTest, a_salt_finds_its_own_answers_and_no_others) {
  const auto outcome = [&](const char* salt) {
    return ask("/v1/completions",
               fmt::format(R"({{"prompt":[1,2],"max_tokens":3,"temperature":0{}}})", salt))
        .header(kHeader);
  };
  EXPECT_EQ(outcome(R"(,"cache_salt":"a")"), "miss");
  EXPECT_EQ(outcome(R"(,"cache_salt":"a")"), "hit");
  EXPECT_EQ(outcome(R"(,"cache_salt":"b")"), "miss");
  EXPECT_EQ(outcome(""), "miss");
  EXPECT_EQ(outcome(""), "hit");
  EXPECT_EQ(outcome(R"(,"cache_salt":"b")"), "hit");
}

TEST_F(CachedGenerationTest, obeys_cache_control) {
  constexpr const char* kBody = R"({"prompt":[1,2],"max_tokens":3,"temperature":0})";
  const auto outcome = [&](std::vector<HttpHeader> headers) {
    return ask("/v1/completions", kBody, std::move(headers)).header(kHeader);
  };
  EXPECT_EQ(outcome({{"Cache-Control", "no-store"}}), "bypass");
  EXPECT_EQ(outcome({{"Cache-Control", "no-cache"}}), "miss");
  EXPECT_EQ(outcome({}), "hit");
  EXPECT_EQ(outcome({{"Cache-Control", "no-cache"}}), "miss");
  EXPECT_EQ(outcome({{"Cache-Control", "no-store"}}), "bypass");
}

TEST_F(CachedGenerationTest, chats_and_completions_of_the_same_tokens_share_an_answer) {
  constexpr const char* kChat =
      R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"temperature":0})";
  const json ids = json::parse(
      ask("/tokenize", R"({"messages":[{"role":"user","content":"hi"}]})").response.body)["tokens"];
  const Exchange chat = ask("/v1/chat/completions", kChat);
  ASSERT_EQ(chat.response.status, 200) << chat.response.body;
  const Exchange plain =
      ask("/v1/completions", json{{"prompt", ids}, {"max_tokens", 5}, {"temperature", 0}}.dump());
  EXPECT_EQ(plain.header(kHeader), "hit");
  EXPECT_EQ(json::parse(plain.response.body)["choices"][0]["text"],
            json::parse(chat.response.body)["choices"][0]["message"]["content"]);
}

constexpr const char* kLong =
    R"({"prompt":[1,2,3],"max_tokens":400,"seed":1,"ignore_eos":true,"stream":true})";

TEST_F(CachedGenerationTest,
       equal_requests_at_once_are_computed_once_though_the_first_client_leaves) {
  Reply leader = start("/v1/completions", kLong);
  Reply follower = start("/v1/completions", kLong);
  HttpResponse ignored;
  leader.source->pull(ignored);
  leader.source.reset();
  const Exchange whole = finish(std::move(follower));
  EXPECT_EQ(whole.header(kHeader), "hit");
  EXPECT_TRUE(whole.response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(n_generated(), 400);
  EXPECT_EQ(counted_outcome("shared"), 1);
  const Exchange replayed = ask("/v1/completions", kLong);
  EXPECT_EQ(comparable(replayed.response.body), comparable(whole.response.body));
  EXPECT_EQ(n_generated(), 400);
}

TEST_F(CachedGenerationTest, a_long_answer_that_is_there_comes_in_pieces) {
  const Exchange first = ask("/v1/completions", kLong);
  int n_wakes = 0;
  HttpRequest request{"POST", "/v1/completions", "", {{"Host", "localhost"}}, kLong};
  Reply reply = service_.handler().handle(std::move(request), [&] { ++n_wakes; });
  HttpResponse response;
  size_t longest = 0;
  std::string body;
  int n_pulls = 1;
  while (reply.source->pull(response) == ReplySource::Progress::kWaiting) {
    ASSERT_EQ(n_wakes, n_pulls);  // else it would not be pulled again
    longest = std::max(longest, response.body.size());
    body += std::exchange(response.body, {});
    ++n_pulls;
  }
  body += response.body;
  EXPECT_EQ(comparable(body), comparable(first.response.body));
  EXPECT_EQ(n_pulls, 400 / 128 + 1);
  EXPECT_LT(longest, body.size() / 2);
}

TEST_F(CachedGenerationTest, an_answer_that_nobody_waits_for_is_cancelled) {
  start("/v1/completions", kLong).source.reset();
  start("/v1/completions", kLong).source.reset();
  EXPECT_TRUE(wait_until([&] {
    const EngineStats stats = engine_.engine->stats();
    return stats.n_running + stats.n_waiting == 0;
  }));
  EXPECT_LT(n_generated(), 400);
  EXPECT_EQ(ask("/v1/completions", kLong).header(kHeader), "miss");
}

struct SmallQueueCacheTest : CachedGenerationTest {
  static EngineOptions small_queue() {
    EngineOptions options;
    options.max_sequences = 1;
    options.max_waiting = 1;
    return options;
  }
  SmallQueueCacheTest() : CachedGenerationTest(small_queue()) {}
};

TEST_F(SmallQueueCacheTest, a_full_queue_refuses_what_must_be_computed_and_nothing_else) {
  constexpr const char* kShort = R"({"prompt":[9],"max_tokens":2,"temperature":0})";
  constexpr const char* kOther = R"({"prompt":[8],"max_tokens":2,"temperature":0})";
  constexpr const char* kLongest =  // so that it is not over before the others are there
      R"({"prompt":[1,2,3],"max_tokens":2000,"temperature":0,"ignore_eos":true,"stream":true})";
  ask("/v1/completions", kShort);
  Reply running = start("/v1/completions", kLongest);
  EXPECT_TRUE(wait_until([&] { return engine_.engine->stats().n_waiting == 0; }));
  Reply waiting =
      start("/v1/completions", R"({"prompt":[4],"max_tokens":2000,"seed":1,"ignore_eos":true})");
  EXPECT_EQ(start("/v1/completions", kOther).response.status, 429);
  EXPECT_EQ(ask("/v1/completions", kShort).header(kHeader), "hit");
  Reply follower = start("/v1/completions", kLongest);
  EXPECT_EQ(follower.response.status, 200);
  waiting.source.reset();
  running.source.reset();
  EXPECT_TRUE(finish(std::move(follower)).response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(ask("/v1/completions", kOther).header(kHeader), "miss");
}

// Nobody looks at the first key's answers, so that nothing of them is known to have begun.
struct KeysCacheTest : CachedGenerationTest, testing::WithParamInterface<bool> {
  static EngineOptions options() {
    EngineOptions options;
    options.max_sequences = 1;
    options.is_fair = GetParam();
    return options;
  }
  KeysCacheTest() : CachedGenerationTest(options(), ApiKeys({"sk-a", "sk-b"})) {}

  Reply start_as(std::string_view key, std::string body) {
    return start(
        "/v1/completions", std::move(body), {{"Authorization", fmt::format("Bearer {}", key)}});
  }
};

TEST_P(KeysCacheTest, a_request_waits_for_an_equal_one_of_another_key_only_without_fairness) {
  constexpr const char* kQueued = R"({"prompt":[9],"max_tokens":2,"temperature":0,"stream":true})";
  const Reply running = start_as("sk-a", kLong);
  const Reply queued = start_as("sk-a", kQueued);
  Reply others = start_as("sk-b", kQueued);
  Reply others_again = start_as("sk-b", kQueued);
  EXPECT_EQ(counted_outcome("miss"), GetParam() ? 3 : 2);
  EXPECT_EQ(counted_outcome("shared"), GetParam() ? 1 : 2);
  const Exchange answer = finish(std::move(others));
  EXPECT_EQ(answer.header(kHeader), GetParam() ? "miss" : "hit");
  EXPECT_TRUE(answer.response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(comparable(finish(std::move(others_again)).response.body),
            comparable(answer.response.body));
}

INSTANTIATE_TEST_SUITE_P(Fairness, KeysCacheTest, testing::Bool());

class SharedCacheTest : public GenerationTest {
 protected:
  void SetUp() override {
    if (!has_redis()) {
      GTEST_SKIP() << "needs redis-server (scripts/install-deps --test)";
    }
    redis_ = std::make_unique<RedisServer>();
    restart();
  }
  // A server with an empty memory.
  void restart(int64_t memory_bytes = 0) {
    ResponseCacheOptions options{.memory_bytes = memory_bytes};
    options.redis = RedisStoreOptions{
        .address = redis_->address(),
        .make_namespace = [](const auto&) { return Digest256{}; },
        .read_limit = std::chrono::seconds(20),  // a busy machine is no slow Redis
        .batch_limit = std::chrono::seconds(20),
        .farewell_limit = std::chrono::seconds(20)};
    cache_.reset();
    engine_.metrics.gauge("millrace_response_cache_redis_up", "").set(0);  // the last one's
    set_cache(std::move(options));
    EXPECT_TRUE(wait_until([&] { return is_up(); }));
  }
  bool is_up() {
    return engine_.metrics.gauge("millrace_response_cache_redis_up", "").value() == 1;
  }
  int n_keys() { return redis_->n_keys(); }

  std::unique_ptr<RedisServer> redis_;
};

TEST_F(SharedCacheTest, an_answer_of_one_server_is_replayed_by_another_with_the_same_bytes) {
  int n = 0;
  for (const Case& one : kCases) {
    const std::string stream = fmt::format(R"({{{},"stream":true}})", one.fields);
    const Exchange first = ask(one.path, stream);
    EXPECT_EQ(first.header(kHeader), "miss");
    ++n;
    ASSERT_TRUE(wait_until([&] { return n_keys() == n; })) << one.fields;
    restart(8 << 20);
    const int64_t n_before = engine_.engine->stats().generated_tokens;
    const Exchange replayed = ask(one.path, stream);
    EXPECT_EQ(replayed.header(kHeader), "hit");
    EXPECT_EQ(comparable(replayed.response.body), comparable(first.response.body));
    EXPECT_EQ(ask(one.path, stream).header(kHeader), "hit");  // from memory
    EXPECT_EQ(engine_.engine->stats().generated_tokens, n_before);
    EXPECT_EQ(engine_.metrics.counter("millrace_response_cache_hits_total", "", {{"tier", "redis"}})
                  .value(),
              n);
  }
}

// Redis may take twenty seconds here; the end of the server does not wait for it.
TEST_F(SharedCacheTest, requests_that_wait_for_redis_are_answered_when_the_server_ends) {
  redis_->freeze();
  std::vector<Reply> replies;
  for (int i = 0; i < 3; ++i) {
    replies.push_back(
        start("/v1/completions",
              fmt::format(R"({{"prompt":[{}],"max_tokens":3,"temperature":0}})", i + 1)));
    ASSERT_TRUE(replies.back().decide && !replies.back().decide());
  }
  service_.begin_drain();
  const auto answer = [&](size_t i) {
    std::optional<Reply> decided;
    EXPECT_TRUE(wait_until([&] {
      if (!decided) {
        decided = replies[i].decide();
      }
      return decided.has_value();
    }));
    return decided ? finish(std::move(*decided)) : Exchange{};
  };
  EXPECT_EQ(answer(0).response.status, 200);
  EXPECT_EQ(answer(1).header(kHeader), "miss");
  abort_engine();
  EXPECT_EQ(answer(2).response.status, 503);
  redis_->thaw();
}

TEST_F(SharedCacheTest, a_server_whose_redis_dies_or_lies_serves_on) {
  constexpr const char* kBody = R"({"prompt":[1,2],"max_tokens":3,"temperature":0})";
  const Exchange first = ask("/v1/completions", kBody);
  ASSERT_TRUE(wait_until([&] { return n_keys() == 1; }));
  redis_->ask({"SET", redis_->ask({"RANDOMKEY"}), "garbage"});
  const Exchange second = ask("/v1/completions", kBody);
  EXPECT_EQ(second.response.status, 200);
  EXPECT_EQ(second.header(kHeader), "miss");
  redis_->kill();
  for (int i = 0; i < 3; ++i) {
    const Exchange answer = ask("/v1/completions", kBody);
    EXPECT_EQ(answer.response.status, 200);
    EXPECT_EQ(answer.header(kHeader), "miss");
    EXPECT_EQ(comparable(answer.response.body), comparable(first.response.body));
  }
  ASSERT_TRUE(wait_until([&] { return !is_up(); }));
  redis_->start();
  ASSERT_TRUE(wait_until([&] { return is_up(); }));
  ask("/v1/completions", kBody);
  ASSERT_TRUE(wait_until([&] { return n_keys() == 1; }));
  EXPECT_EQ(ask("/v1/completions", kBody).header(kHeader), "hit");
}

}  // namespace
}  // namespace millrace

// Requests through the service to a small engine and back, without a transport.

#include "server/generation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "server/generation_testing.h"

namespace millrace {
namespace {

using nlohmann::json;

constexpr const char* kLong = R"({"prompt":[1,2,3],"max_tokens":2000,"ignore_eos":true})";
constexpr const char* kLongStream =
    R"({"prompt":[1,2,3],"max_tokens":2000,"ignore_eos":true,"stream":true})";

TEST_F(GenerationTest, a_whole_answer_is_counted_once_and_has_its_headers) {
  const Exchange answer =
      ask("/v1/completions", R"({"prompt":[1,2],"max_tokens":2,"ignore_eos":true})");
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(json::parse(answer.response.body)["usage"]["completion_tokens"], 2);
  EXPECT_EQ(answer.header("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(counted(200), 1);
}

TEST_F(GenerationTest, an_answer_that_fails_is_counted_as_the_failure_and_readable_by_its_page) {
  Reply reply = start("/v1/completions", kLong);
  abort_engine();
  const Exchange answer = finish(std::move(reply));
  EXPECT_EQ(answer.response.status, 503);
  EXPECT_EQ(json::parse(answer.response.body)["error"]["type"], "server_error");
  EXPECT_EQ(answer.header("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(counted(503), 1);
  EXPECT_EQ(counted(200), 0);
}

TEST_F(GenerationTest, a_stream_that_breaks_off_is_counted_as_the_failure) {
  Reply reply = start("/v1/completions", kLongStream);
  abort_engine();
  const Exchange answer = finish(std::move(reply));
  EXPECT_NE(answer.response.body.find(R"(data: {"error":{)"), std::string::npos);
  EXPECT_TRUE(answer.response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(answer.header("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(counted(503), 1);
  EXPECT_EQ(counted(200), 0);
}

struct SmallQueueTest : GenerationTest {
  static EngineOptions small_queue() {
    EngineOptions options;
    options.max_waiting = 3;
    return options;
  }
  SmallQueueTest() : GenerationTest(small_queue()) {}
};

TEST_F(SmallQueueTest, more_answers_than_may_ever_wait_are_the_requests_mistake) {
  Exchange answer = ask("/v1/completions", R"({"prompt":[1],"n":4})");
  EXPECT_EQ(answer.response.status, 400);
  EXPECT_EQ(json::parse(answer.response.body)["error"]["param"], "n");
  answer = ask("/v1/completions", R"({"prompt":[[1],[2]],"n":2})");
  EXPECT_EQ(answer.response.status, 400);
  const json error = json::parse(answer.response.body)["error"];
  EXPECT_EQ(error["param"], "prompt");
  EXPECT_NE(error["message"].get<std::string>().find("at most 3"), std::string::npos);
  EXPECT_EQ(ask("/v1/completions", R"({"prompt":[1],"n":3,"max_tokens":1})").response.status, 200);
}

TEST_F(GenerationTest, mistakes_that_only_the_engine_finds_name_the_field) {
  struct Case {
    const char* body;
    const char* param;
    const char* begin;  // of the message
    const char* code = "invalid_value";
  };
  const std::string long_text = R"({"prompt":")" + std::string(200'000, 'a') + "\"}";
  const std::string long_list = R"({"prompt":["a",")" + std::string(200'000, 'a') + "\"]}";
  const std::string deep = "{\"prompt\":" + std::string(200, '[') + std::string(200, ']') + "}";
  const Case cases[] = {
      {deep.c_str(), "", "the request body: [json] offset 138: nested more than 128 deep"},
      {R"({"prompt":[1,99999999]})", "prompt", "prompt[1] is token"},
      {R"({"prompt":[[1],[2,99999999]]})", "prompt[1]", "prompt[1][1] is token"},
      {R"({"prompt":[1],"max_tokens":1000000})",
       "prompt",
       "prompt: the window is",
       "context_length_exceeded"},
      {long_text.c_str(), "prompt", "prompt: at least ", "context_length_exceeded"},
      {long_list.c_str(), "prompt[1]", "prompt[1]: at least ", "context_length_exceeded"},
      {R"({"prompt":[1],"stop_token_ids":[99999999]})",
       "stop_token_ids",
       "stop_token_ids[0] is token"},
      {R"({"prompt":[1],"logit_bias":{"99999999":1}})", "logit_bias", "logit_bias names"},
      {R"({"prompt":[1],"max_tokens":3,"min_tokens":4})", "min_tokens", "min_tokens must"},
      {R"({"prompt":[1],"temperature":NaN})", "", "the request body is not JSON", "invalid_json"},
      {R"({"prompt":[1],"temperature":1e999})",
       "",
       "the request body: [json] offset 28: the number is beyond the range"},
  };
  for (const Case& one : cases) {
    const Exchange answer = ask("/v1/completions", one.body);
    EXPECT_EQ(answer.response.status, 400) << one.body;
    const json error = json::parse(answer.response.body)["error"];
    EXPECT_EQ(error["param"].is_null() ? "" : error["param"].get<std::string>(), one.param);
    EXPECT_EQ(error["message"].get<std::string>().rfind(one.begin, 0), 0u) << error;
    EXPECT_EQ(error["code"], one.code);
  }
  const Exchange renamed =
      ask("/v1/completions", R"({"prompt":[1],"max_completion_tokens":1000000})");
  EXPECT_NE(renamed.response.body.find("(max_completion_tokens)"), std::string::npos);
  EXPECT_EQ(engine_.engine->stats().prompt_tokens,
            0);  // not even the good ones were started
}

// Kilobytes, the most so far.
int64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// An echo takes the prompt's text once for each choice.
TEST_F(GenerationTest, a_prompt_beyond_the_window_is_refused_before_its_echo_is_made) {
  constexpr int kIds = 300'000;
  const Tokenizer& tokenizer = engine_.engine->tokenizer();
  TokenId longest = 0;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    longest =
        tokenizer.token_bytes(id).size() > tokenizer.token_bytes(longest).size() ? id : longest;
  }
  const int64_t echo_bytes =
      int64_t{128} * kIds * static_cast<int64_t>(tokenizer.token_bytes(longest).size());
  std::string ids = std::to_string(longest);
  for (int i = 1; i < kIds; ++i) {
    ids += fmt::format(",{}", longest);
  }
  const int64_t before = peak_memory();
  for (const std::string& prompt : {"[" + ids + "]", "[[1],[" + ids + "]]"}) {
    const int n = prompt.starts_with("[[") ? 64 : 128;
    const Exchange answer =
        ask("/v1/completions", fmt::format(R"({{"prompt":{},"echo":true,"n":{}}})", prompt, n));
    EXPECT_EQ(answer.response.status, 400);
    EXPECT_NE(answer.response.body.find("the window is"), std::string::npos);
  }
  EXPECT_LT(1024 * (peak_memory() - before), echo_bytes / 2);
}

TEST_F(GenerationTest, the_tokens_of_an_echo_with_control_tokens_join_to_its_text) {
  const Tokenizer& tokenizer = engine_.engine->tokenizer();
  ASSERT_TRUE(tokenizer.is_control(tokenizer.bos()));
  const std::string control(tokenizer.token_text(tokenizer.bos()));
  const std::string prompt = control + "user\nhi" + control + "\n";
  const json body = {{"prompt", prompt}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}};
  const json answer = json::parse(ask("/v1/completions", body.dump()).response.body);
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], prompt);
  std::string joined;
  for (const json& token : choice["logprobs"]["tokens"]) {
    joined += token.get<std::string>();
  }
  EXPECT_EQ(joined, prompt);
}

TEST_F(GenerationTest, the_seed_that_was_drawn_is_reported_and_gives_the_answer_again) {
  const std::string fields = R"("prompt":[[1,2],[3]],"max_tokens":12,"ignore_eos":true)";
  const json first = json::parse(ask("/v1/completions", "{" + fields + "}").response.body);
  ASSERT_TRUE(first["seed"].is_number_integer()) << first;
  const json again =
      json::parse(ask("/v1/completions", "{" + fields + ",\"seed\":" + first["seed"].dump() + "}")
                      .response.body);
  EXPECT_EQ(again["seed"], first["seed"]);
  EXPECT_EQ(again["choices"], first["choices"]);
  const json given =
      json::parse(ask("/v1/completions", R"({"prompt":[1],"seed":-5})").response.body);
  EXPECT_EQ(given["seed"], -5);
  const Exchange streamed = ask("/v1/completions", R"({"prompt":[1],"seed":77,"stream":true})");
  EXPECT_NE(streamed.response.body.find(R"("seed":77)"), std::string::npos);
}

TEST_F(GenerationTest, without_a_draw_the_seed_that_is_reported_is_the_client_s_or_0) {
  const auto seed_of = [&](const char* fields) {
    const std::string body = fmt::format(R"({{"prompt":[1],"max_tokens":2{}}})", fields);
    return json::parse(ask("/v1/completions", body).response.body)["seed"];
  };
  EXPECT_EQ(seed_of(R"(,"temperature":0)"), 0);
  EXPECT_EQ(seed_of(R"(,"temperature":0.000001)"), 0);
  EXPECT_EQ(seed_of(R"(,"temperature":0,"seed":-7)"), -7);
  EXPECT_NE(seed_of(R"(,"temperature":0.5)"), 0);
}

struct OneAtATimeTest : GenerationTest {
  static EngineOptions one_at_a_time() {
    EngineOptions options;
    options.max_sequences = 1;
    options.max_drafts = 0;
    return options;
  }
  OneAtATimeTest() : GenerationTest(one_at_a_time()) {}
};

TEST_F(OneAtATimeTest, a_deadline_that_comes_before_the_first_token_is_504) {
  std::vector<Reply> before;
  for (int i = 0; i < 3; ++i) {
    before.push_back(start("/v1/completions", kLong));
  }
  const Exchange whole = ask("/v1/completions", R"({"prompt":[[1],[2]],"n":2,"timeout_ms":2})");
  EXPECT_EQ(whole.response.status, 504);
  const json error = json::parse(whole.response.body)["error"];
  EXPECT_EQ(error["code"], "deadline_exceeded");
  EXPECT_EQ(error["type"], "server_error");
  EXPECT_NE(error["message"].get<std::string>().find("2 ms (timeout_ms)"), std::string::npos);
  const Exchange stream = ask("/v1/completions", R"({"prompt":[1],"timeout_ms":2,"stream":true})");
  EXPECT_NE(stream.response.body.find("deadline_exceeded"), std::string::npos);
  EXPECT_TRUE(stream.response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(counted(504), 2);
  for (Reply& reply : before) {
    EXPECT_EQ(json::parse(finish(std::move(reply)).response.body)["usage"]["completion_tokens"],
              2000);
  }
}

TEST_F(GenerationTest, a_deadline_counts_from_when_the_request_was_received) {
  HttpRequest request{"POST", "/v1/completions", "", {}, R"({"prompt":[1],"timeout_ms":600000})"};
  request.received = Clock::now() - std::chrono::minutes(10);
  EXPECT_EQ(finish(service_.handler().handle(std::move(request), [] {})).response.status, 504);
}

// How fast the machine is decides which time lies between the first token and the last.
TEST_F(OneAtATimeTest, a_deadline_that_comes_later_ends_the_answer_with_the_reason_timeout) {
  const auto ask_for_long = [&](const char* more) {
    Exchange answer;
    for (int timeout_ms = 10; timeout_ms < 60'000; timeout_ms *= 3) {
      answer = ask("/v1/completions",
                   fmt::format(R"({{"prompt":[1,2,3],"max_tokens":2000,"ignore_eos":true,"n":6,)"
                               R"("timeout_ms":{}{}}})",
                               timeout_ms,
                               more));
      if (answer.response.body.find("deadline_exceeded") == std::string::npos) {
        break;
      }
    }
    return answer;
  };
  const Exchange whole = ask_for_long("");
  EXPECT_EQ(whole.response.status, 200);
  const json answer = json::parse(whole.response.body);
  ASSERT_EQ(answer["choices"].size(), 6U);
  EXPECT_EQ(answer["choices"][5]["finish_reason"], "timeout");
  const auto n_tokens = answer["usage"]["completion_tokens"].get<int64_t>();
  EXPECT_GT(n_tokens, 0);
  EXPECT_LT(n_tokens, 6 * 2'000);
  const Exchange stream = ask_for_long(R"(,"stream":true)");
  EXPECT_NE(stream.response.body.find(R"("finish_reason":"timeout")"), std::string::npos);
  EXPECT_TRUE(stream.response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(counted(200), 2);
}

// A flood of one key, then one request of another, with and without fairness.
struct KeysTest : GenerationTest, testing::WithParamInterface<bool> {
  static EngineOptions options() {
    EngineOptions options = OneAtATimeTest::one_at_a_time();
    options.is_fair = GetParam();
    return options;
  }
  KeysTest() : GenerationTest(options(), std::nullopt, ApiKeys({"sk-a", "sk-b"})) {}

  Reply start_as(const char* key, int seed, int n_prompt, int max_tokens) {
    json body = {{"max_tokens", max_tokens}, {"ignore_eos", true}, {"priority", seed % 9 - 8}};
    body["prompt"] = some_prompt(n_prompt, seed);
    return start(
        "/v1/completions", body.dump(), {{"Authorization", fmt::format("Bearer {}", key)}});
  }
};

TEST_P(KeysTest, a_request_waits_for_the_flood_of_another_key_only_without_fairness) {
  for (const char* flooder : {"sk-a", "sk-b"}) {
    std::vector<Reply> flood;
    for (int i = 0; i < 25; ++i) {
      flood.push_back(start_as(flooder, i + (*flooder == 'a' ? 0 : 100), 400, 100));
    }
    const std::string_view other = std::string_view(flooder) == "sk-a" ? "sk-b" : "sk-a";
    const Exchange answer = finish(start_as(other.data(), 8, 10, 1));
    EXPECT_EQ(answer.response.status, 200);
    const EngineStats stats = engine_.engine->stats();
    if (GetParam()) {
      EXPECT_GE(stats.n_waiting, 10);
    } else {
      EXPECT_EQ(stats.n_waiting, 0);
    }
    for (Reply& reply : flood) {
      EXPECT_EQ(finish(std::move(reply)).response.status, 200);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fairness, KeysTest, testing::Bool());

TEST_F(GenerationTest, long_paths_are_cut_between_characters_in_the_log) {
  HttpRequest request{"GET", "/v1/models/", "", {}, ""};
  std::string shown = request.path;
  for (int i = 0; i < 150; ++i) {
    request.path += "\u00e9";
    shown += i < 44 ? "\u00e9" : "";  // 99 bytes: the next one would be too many
  }
  set_log_level(LogLevel::kDebug);
  testing::internal::CaptureStderr();
  service_.handler().handle(std::move(request), [] {});
  const std::string log = testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::kInfo);
  EXPECT_NE(log.find(fmt::format(" GET {} 404 after ", shown)), std::string::npos) << log;
}

TEST_F(GenerationTest, a_client_that_leaves_is_counted_as_gone) {
  for (const char* body : {kLong, kLongStream}) {
    Reply reply = start("/v1/completions", body);
    reply.source.reset();
  }
  EXPECT_EQ(counted(499), 2);
  EXPECT_EQ(counted(200), 0);
}

}  // namespace
}  // namespace millrace

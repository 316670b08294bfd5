#include "server/response_cache/cache_policy.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "server/api/completion_request.h"

namespace millrace {
namespace {

constexpr RequestLimits kLimits{.n_vocab = 1000, .max_model_len = 100, .max_waiting = 64};

// The requests that a body of /v1/completions, with prompts as ids, asks of the engine.
std::vector<Request> requests_of(const std::string& fields) {
  auto body = parse_body("{" + fields + "}");
  EXPECT_TRUE(body) << fields;
  auto parsed = parse_completion_request(*body);
  EXPECT_TRUE(parsed) << fields << parsed.error().message;
  std::vector<Request> requests;
  for (const auto& prompt : parsed->prompts) {
    requests.push_back(parsed->fields.request);
    requests.back().prompt = std::get<std::vector<TokenId>>(prompt);
  }
  return requests;
}

Digest256 key_of(const std::string& fields) {
  return request_key(requests_of(fields), kLimits);
}

const std::string kPlain = R"("prompt":[1,2,3],"temperature":0.5,"seed":7)";

TEST(RequestKey, changes_with_every_field_that_changes_the_answer) {
  std::map<Digest256, std::string> seen{{key_of(kPlain), kPlain}};
  std::vector<std::string> bodies = {
      R"("prompt":[1,2,4],"temperature":0.5,"seed":7)",
      R"("prompt":[1,2],"temperature":0.5,"seed":7)",
      R"("prompt":[[1,2,3],[4]],"temperature":0.5,"seed":7)",
      R"("prompt":[[1,2],[3,4]],"temperature":0.5,"seed":7)",
      R"("prompt":[1,2,3],"temperature":0.25,"seed":7)",
      R"("prompt":[1,2,3],"temperature":0.5,"seed":8)",
      R"("prompt":[1,2,3],"temperature":0,"seed":7)",
  };
  for (const char* field : {R"("max_tokens":15)",
                            R"("min_tokens":1)",
                            R"("top_k":5)",
                            R"("top_p":0.5)",
                            R"("min_p":0.5)",
                            R"("typical_p":0.5)",
                            R"("repetition_penalty":1.5)",
                            R"("frequency_penalty":0.5)",
                            R"("presence_penalty":0.5)",
                            R"("logit_bias":{"1":1})",
                            R"("logit_bias":{"1":-1})",
                            R"("logit_bias":{"2":1})",
                            R"("logit_bias":{"1":1,"2":1})",
                            R"("stop":"a")",
                            R"("stop":"ab")",
                            R"("stop":["a","b"])",
                            R"("stop_token_ids":[5])",
                            R"("stop_token_ids":[5,6])",
                            R"("ignore_eos":true)",
                            R"("n":2)",
                            R"("logprobs":0)",
                            R"("logprobs":1)",
                            R"("logprobs":1,"echo":true)",
                            R"("cache_salt":"s")",
                            R"("cache_salt":"t")"}) {
    bodies.push_back(kPlain + "," + field);
  }
  for (const std::string& body : bodies) {
    const auto [at, is_new] = seen.emplace(key_of(body), body);
    EXPECT_TRUE(is_new) << body << " has the key of " << at->second;
  }
}

TEST(RequestKey, stays_with_fields_that_only_say_how_the_answer_is_made_or_shown) {
  for (const char* field : {R"("priority":5)",
                            R"("user":"u")",
                            R"("stream":true)",
                            R"("stream":true,"stream_options":{"include_usage":true})",
                            R"("echo":true)",
                            R"("model":"another name")"}) {
    EXPECT_EQ(key_of(kPlain + "," + field), key_of(kPlain)) << field;
  }
  std::vector<Request> predicted = requests_of(kPlain);
  predicted[0].prediction = {1, 2};
  predicted[0].is_speculative = false;
  EXPECT_EQ(request_key(predicted, kLimits), key_of(kPlain));
}

TEST(RequestKey, does_not_depend_on_the_order_of_fields_and_sets) {
  const auto same = [](const std::string& a, const std::string& b) {
    EXPECT_EQ(key_of(a), key_of(b)) << a << b;
  };
  same(kPlain, R"("seed":7,"temperature":0.5,"prompt":[1,2,3])");
  same(kPlain + R"(,"logit_bias":{"10":1,"9":2})", kPlain + R"(,"logit_bias":{"9":2,"10":1})");
  same(kPlain + R"(,"stop":["a","b"])", kPlain + R"(,"stop":["b","a","b"])");
  same(kPlain + R"(,"stop":["a"])", kPlain + R"(,"stop":"a")");
  same(kPlain + R"(,"stop_token_ids":[5,6])", kPlain + R"(,"stop_token_ids":[6,5,6])");
}

TEST(RequestKey, defaults_spelt_out_are_defaults_left_out) {
  EXPECT_EQ(
      key_of(kPlain),
      key_of(kPlain +
             R"(,"max_tokens":16,"min_tokens":0,"top_k":-1,"top_p":1,"min_p":0,"typical_p":1,)"
             R"("repetition_penalty":1,"frequency_penalty":-0.0,"presence_penalty":0,)"
             R"("logit_bias":{},"stop":[],"stop_token_ids":[],"ignore_eos":false,"n":1,)"
             R"("best_of":1,"echo":false,"stream":false,"logprobs":null,"cache_salt":"")"));
}

TEST(RequestKey, has_the_length_that_the_window_leaves) {
  std::vector<Request> open = requests_of(kPlain);
  open[0].max_tokens.reset();
  std::vector<Request> exact = requests_of(kPlain);
  exact[0].max_tokens = kLimits.max_model_len - 3;
  EXPECT_EQ(request_key(open, kLimits), request_key(exact, kLimits));
  EXPECT_NE(request_key(open, kLimits), request_key(open, {1000, 99, 64}));
}

TEST(RequestKey, ignores_the_seed_where_nothing_is_drawn) {
  EXPECT_EQ(key_of(R"("prompt":[1],"temperature":0,"seed":1)"),
            key_of(R"("prompt":[1],"temperature":0)"));
  EXPECT_EQ(key_of(kPlain), key_of(kPlain + R"(,"timeout_ms":500)"));
}

HttpRequest with_headers(std::vector<HttpHeader> headers) {
  return {"POST", "/", "", std::move(headers), ""};
}

TEST(CacheUse, needs_temperature_0_or_a_seed) {
  Request request;
  EXPECT_FALSE(cache_use(with_headers({}), request, false).reads);  // the default is 1
  EXPECT_FALSE(cache_use(with_headers({}), request, false).writes);
  EXPECT_TRUE(cache_use(with_headers({}), request, true).reads);
  EXPECT_TRUE(cache_use(with_headers({}), request, true).writes);
  request.sampling.temperature = 0;
  EXPECT_TRUE(cache_use(with_headers({}), request, false).reads);
}

TEST(CacheUse, an_answer_that_may_end_at_its_deadline_is_found_and_not_left) {
  Request request;
  request.timeout_ms = 5;
  EXPECT_TRUE(cache_use(with_headers({}), request, true).reads);
  EXPECT_FALSE(cache_use(with_headers({}), request, true).writes);
}

TEST(CacheUse, obeys_cache_control) {
  const auto use = [](std::vector<HttpHeader> headers) {
    return cache_use(with_headers(std::move(headers)), {}, true);
  };
  for (const char* value :
       {"no-store", "No-Store", "max-age=0, no-store", "no-cache ,\tno-store "}) {
    EXPECT_FALSE(use({{"cache-control", value}}).reads) << value;
    EXPECT_FALSE(use({{"cache-control", value}}).writes) << value;
  }
  EXPECT_FALSE(use({{"Cache-Control", "no-cache"}}).reads);
  EXPECT_TRUE(use({{"Cache-Control", "no-cache"}}).writes);
  EXPECT_FALSE(use({{"Cache-Control", "no-cache"}, {"Cache-Control", "no-store"}}).writes);
  EXPECT_TRUE(use({{"Cache-Control", "private, no-storex, =no-store"}}).reads);
  EXPECT_TRUE(use({{"Accept", "no-store"}}).reads);
}

}  // namespace
}  // namespace millrace

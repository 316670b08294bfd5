// Bodies of completions and chat completions: what is accepted, and what each mistake is told.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/unsupported_fields.h"
#include "text/chat_template.h"

namespace millrace {
namespace {

Value json(std::string_view text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value) << text;
  return value ? *value : Value();
}

ChatRequest good_chat(std::string_view text) {
  auto parsed = parse_chat_request(json(text));
  if (!parsed) {
    ADD_FAILURE() << text << ": " << parsed.error().message;
    return {};
  }
  return std::move(*parsed);
}

CompletionRequest good_completion(std::string_view text) {
  auto parsed = parse_completion_request(json(text));
  if (!parsed) {
    ADD_FAILURE() << text << ": " << parsed.error().message;
    return {};
  }
  return std::move(*parsed);
}

struct Mistake {
  const char* fields;   // put behind the messages or the prompt
  const char* param;    // what the error names
  const char* message;  // a part of it
};

constexpr const char* kMessages = R"("messages":[{"role":"user","content":"hi"}])";

TEST(ChatRequest, mistakes_are_named_with_their_path_and_what_came) {
  const Mistake mistakes[] = {
      {R"("n":0)", "n", "expected an integer from 1 to 128, got 0"},
      {R"("n":1000000)", "n", "got 1000000"},
      {R"("n":"3")", "n", "got the string \"3\""},
      {R"("n":2.5)", "n", "got 2.5"},
      {R"("n":1.0)", "n", "expected an integer from 1 to 128, got 1.0"},
      {R"("top_k":2e1)", "top_k", "got 20.0"},
      {R"("priority":-0.0)", "priority", "got -0.0"},
      {R"("max_tokens":1e300)", "max_tokens", "got 1e+300"},
      {R"("n":"a123456789012345678901234567890123456789")", "n", "89\""},
      {R"("n":"a12345678901234567890123456789012345678é")", "n", "5678...\""},
      {R"("temperature":-0.1)", "temperature", "a number from 0 to 1000000, got -0.1"},
      {R"("temperature":"hot")", "temperature", "got the string \"hot\""},
      {R"("top_p":1.5)", "top_p", "from 0 to 1"},
      {R"("frequency_penalty":3)", "frequency_penalty", "from -2 to 2"},
      {R"("max_tokens":0)", "max_tokens", "expected 1 or more, or -1 for what the window leaves"},
      {R"("max_completion_tokens":-2)", "max_completion_tokens", "expected 1 or more, or -1"},
      {R"("max_tokens":-1.0)", "max_tokens", "expected an integer from 1 to 2147483647, got -1.0"},
      {R"("max_tokens":3000000000)", "max_tokens", "expected an integer from 1 to 2147483647"},
      {R"("n_predict":100)", "n_predict", "use max_tokens"},
      {R"("seed":1.0)", "seed", "expected an integer"},
      {R"("stream":"yes")", "stream", "expected true or false"},
      {R"("stream_options":{"include_usage":true})", "stream_options", "\"stream\": true"},
      {R"("stream":true,"stream_options":{"include_usage":1})",
       "stream_options.include_usage",
       "expected true or false, got 1"},
      {R"("stream":true,"stream_options":[])", "stream_options", "expected a JSON object"},
      {R"("stop":"")", "stop", "expected 1 to 1024 bytes"},
      {R"("stop":["a",1])", "stop[1]", "expected a string, got 1"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])",
       "stop",
       "at most 16 strings, got 17"},
      {R"("logit_bias":{"x":1})", "logit_bias", "token ids as keys"},
      {R"("logit_bias":{"5":101})", "logit_bias.5", "from -100 to 100"},
      {R"("logit_bias":[1])", "logit_bias", "got an array"},
      {R"("logprobs":1)", "logprobs", "expected true or false"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "from 0 to 20"},
      {R"("top_logprobs":2)", "top_logprobs", "needs \"logprobs\": true"},
      {R"("tool_choice":"required")", "tool_choice", "only \"auto\" and \"none\""},
      {R"("tool_choice":{"type":"function"})", "tool_choice", "only \"auto\" and \"none\""},
      {R"("tools":[{"type":"retrieval"}])", "tools[0]", "function"},
      {R"("tools":{})", "tools", "expected an array"},
      {R"("response_format":{"type":"json_object"})", "response_format", "only"},
      {R"("response_format":"json")", "response_format", "only"},
      {R"("audio":{"voice":"alloy"})", "audio", "not supported"},
      {R"("modalities":["text","audio"])", "modalities", "only [\"text\"]"},
      {R"("functions":[{}])", "functions", "not supported"},
      {R"("guided_json":{})", "guided_json", "not supported yet"},
      {R"("chat_template":"{{x}}")", "chat_template", "come with the model"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs", "expected an object"},
      {R"("continue_final_message":true,"add_generation_prompt":true)",
       "continue_final_message",
       "excludes"},
      {R"("skip_special_tokens":false)", "skip_special_tokens", "never part"},
      {R"("priority":5000)", "priority", "from -1000 to 1000"},
      {R"("timeout_ms":0)", "timeout_ms", "from 1 to 86400000, got 0"},
      {R"("timeout_ms":-5)", "timeout_ms", "got -5"},
      {R"("timeout_ms":86400001)", "timeout_ms", "got 86400001"},
      {R"("timeout_ms":1.5)", "timeout_ms", "expected an integer"},
      {R"("timeout_ms":"1s")", "timeout_ms", "got the string \"1s\""},
      {R"("model":5)", "model", "expected a string, got 5"},
      {R"("chat_template_kwargs":{"a":1,"messages":[]})",
       "chat_template_kwargs.messages",
       "set by the request itself"},
      {R"("chat_template_kwargs":{"add_generation_prompt":true})",
       "chat_template_kwargs.add_generation_prompt",
       "set by the request itself"},
      {R"("chat_template_kwargs":{"bos_token":"x"})",
       "chat_template_kwargs.bos_token",
       "set by the request itself"},
      {R"("parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f"}}])",
       "parallel_tool_calls",
       "not supported"},
      {R"("stop_token_ids":5)", "stop_token_ids", "expected an array of token ids, got 5"},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string text = std::string("{") + kMessages + "," + mistake.fields + "}";
    const auto parsed = parse_chat_request(json(text));
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().status(), 400);
    EXPECT_EQ(parsed.error().param, mistake.param) << text;
    EXPECT_NE(parsed.error().message.find(mistake.message), std::string::npos)
        << text << ": " << parsed.error().message;
  }
}

TEST(ChatRequest, mistakes_in_messages_are_named_down_to_the_part) {
  const Mistake mistakes[] = {
      {R"({})", "messages", "got nothing"},
      {R"({"messages":[]})", "messages", "got an empty array"},
      {R"({"messages":"hi"})", "messages", "got the string \"hi\""},
      {R"({"messages":["hi"]})", "messages[0]", "expected an object"},
      {R"({"messages":[{"content":"hi"}]})", "messages[0].role", "got nothing"},
      {R"({"messages":[{"role":"wizard","content":"hi"}]})", "messages[0].role", "\"wizard\""},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content", "got nothing"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content", "got 5"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"image_url"}]}]})",
       "messages[1].content[0].type",
       "\"image_url\""},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
       "messages[0].content[0].text",
       "got nothing"},
      {R"({"messages":[{"role":"user","content":["a"]}]})", "messages[0].content[0]", "object"},
      {R"({"messages":[{"role":"assistant","tool_calls":{}}]})", "messages[0].tool_calls", "array"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"id":"x"}]}]})",
       "messages[0].tool_calls[0].function",
       "got nothing"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto parsed = parse_chat_request(json(mistake.fields));
    ASSERT_FALSE(parsed) << mistake.fields;
    EXPECT_EQ(parsed.error().param, mistake.param) << mistake.fields;
    EXPECT_NE(parsed.error().message.find(mistake.message), std::string::npos)
        << parsed.error().message;
  }
  for (const char* body : {"[]", "5", "\"x\"", "null"}) {
    const auto parsed = parse_chat_request(json(body));
    EXPECT_FALSE(parsed) << body;
  }
}

TEST(ChatRequest, null_means_absent_for_every_optional_field) {
  std::string text = std::string("{") + kMessages;
  for (const char* name : {"model",
                           "n",
                           "seed",
                           "stop",
                           "temperature",
                           "top_p",
                           "top_k",
                           "min_p",
                           "max_tokens",
                           "max_completion_tokens",
                           "logprobs",
                           "top_logprobs",
                           "logit_bias",
                           "stream",
                           "stream_options",
                           "tools",
                           "tool_choice",
                           "response_format",
                           "frequency_penalty",
                           "presence_penalty",
                           "user",
                           "audio",
                           "modalities",
                           "functions",
                           "parallel_tool_calls",
                           "chat_template_kwargs",
                           "documents",
                           "store",
                           "metadata",
                           "reasoning_effort",
                           "ignore_eos",
                           "min_tokens",
                           "priority",
                           "cache_salt",
                           "stop_token_ids",
                           "guided_json"}) {
    text += std::string(",\"") + name + "\":null";
  }
  const ChatRequest request = good_chat(text + "}");
  EXPECT_EQ(request.fields.request.n, 1);
  EXPECT_EQ(request.fields.request.sampling.temperature, 1);
  EXPECT_FALSE(request.fields.request.max_tokens);
  EXPECT_FALSE(request.fields.request.seed);
  const ChatRequest any = good_chat(R"({"messages":[{"role":"user","content":"x"}],"seed":-1})");
  EXPECT_FALSE(any.fields.request.seed);  // as llama.cpp reads it
  EXPECT_FALSE(request.fields.streams);
  EXPECT_TRUE(request.fields.unknown.empty());
}

TEST(ChatRequest, fields_arrive) {
  const ChatRequest request = good_chat(R"({
      "model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],
      "n":3,"seed":-5,"stop":["x","yy"],"temperature":0.25,"top_p":0.5,"top_k":-1,"min_p":0.1,
      "max_tokens":7,"max_completion_tokens":9,"logprobs":true,"top_logprobs":4,
      "logit_bias":{"12":-100,"3":1.5},"stream":true,"stream_options":{"include_usage":true},
      "ignore_eos":true,"min_tokens":2,"reasoning_effort":"low","cache_salt":"s","gratuitous":1})");
  const Request& engine = request.fields.request;
  EXPECT_EQ(request.fields.model, "m");
  EXPECT_EQ(engine.n, 3);
  EXPECT_EQ(engine.cache_salt, "s");
  EXPECT_EQ(engine.seed, static_cast<uint64_t>(int64_t{-5}));
  EXPECT_EQ(engine.stop, (std::vector<std::string>{"x", "yy"}));
  EXPECT_EQ(engine.sampling.temperature, 0.25F);
  EXPECT_EQ(engine.sampling.top_k, -1);
  EXPECT_EQ(engine.max_tokens, 9);  // the newer name wins
  EXPECT_EQ(engine.n_logprobs, 4);
  ASSERT_EQ(engine.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(engine.sampling.logit_bias[0].token, 12);
  EXPECT_TRUE(request.fields.streams);
  EXPECT_TRUE(request.fields.include_usage);
  EXPECT_TRUE(engine.ignore_eos);
  EXPECT_EQ(request.conversation.extra.string_or("reasoning_effort", ""), "low");
  EXPECT_EQ(request.fields.unknown, std::vector<std::string>{"gratuitous"});
  const ChatRequest below = good_chat(
      R"({"messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"usage":1}})");
  EXPECT_EQ(below.fields.unknown, std::vector<std::string>{"stream_options.usage"});
}

// As many as are allowed pass, one more is told the limit and what came.
TEST(ChatRequest, too_many_items_are_told_the_limit_and_what_came) {
  const auto list = [](int n) {
    std::string text = "[";
    for (int i = 0; i < n; ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : ",", i);
    }
    return text + "]";
  };
  const auto biases = [](size_t n) {
    std::string text = "{";
    for (size_t i = 0; i < n; ++i) {
      text += fmt::format("{}\"{}\":1", i == 0 ? "" : ",", i);
    }
    return text + "}";
  };
  const auto body = [](const std::string& field) {
    return std::string("{") + kMessages + "," + field + "}";
  };
  EXPECT_EQ(good_chat(body("\"stop_token_ids\":" + list(kMaxStopTokens)))
                .fields.request.stop_tokens.size(),
            size_t{kMaxStopTokens});
  auto parsed = parse_chat_request(json(body("\"stop_token_ids\":" + list(65))));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message, "stop_token_ids: expected at most 64 token ids, got 65");
  EXPECT_EQ(parsed.error().param, "stop_token_ids");
  good_chat(body("\"logit_bias\":" + biases(kMaxLogitBias)));
  parsed = parse_chat_request(json(body("\"logit_bias\":" + biases(kMaxLogitBias + 1))));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(
      parsed.error().message,
      fmt::format(
          "logit_bias: expected at most {} token ids, got {}", kMaxLogitBias, kMaxLogitBias + 1));
}

// What clients of other servers send by default asks for nothing.
TEST(Requests, unsupported_fields_are_refused_only_when_they_ask_for_something) {
  const auto body = [](std::string_view name, const std::string& value) {
    return fmt::format(R"({{{},"{}":{}}})", kMessages, name, value);
  };
  std::vector<UnsupportedField> fields(unsupported_in_all().begin(), unsupported_in_all().end());
  fields.insert(fields.end(), unsupported_in_chat().begin(), unsupported_in_chat().end());
  for (const UnsupportedField& field : fields) {
    std::vector<std::string> neutral = {"null", "false"};
    const Value accepted = json(field.neutral);
    for (const Value& value : accepted.items()) {
      neutral.push_back(dump_json(value)->text());
    }
    for (const std::string& value : neutral) {
      EXPECT_TRUE(good_chat(body(field.name, value)).fields.unknown.empty()) << field.name;
    }
    for (const char* value : {"true", "7", R"("x")", R"(["x"])", R"({"x":1})"}) {
      const auto parsed = parse_chat_request(json(body(field.name, value)));
      ASSERT_FALSE(parsed) << field.name << value;
      EXPECT_EQ(parsed.error().param, field.name);
      EXPECT_EQ(parsed.error().code, ApiCode::kUnsupportedParameter);
    }
  }
  EXPECT_FALSE(parse_chat_request(json(body("guided_json", "{}"))));
}

TEST(Requests, each_mistake_has_its_kind) {
  const std::pair<const char*, ApiCode> cases[] = {
      {R"({"prompt":"a","n":"1"})", ApiCode::kInvalidType},
      {R"({"prompt":"a","n":1.5})", ApiCode::kInvalidType},
      {R"({"prompt":"a","n":0})", ApiCode::kInvalidValue},
      {R"({"prompt":"a","temperature":"1"})", ApiCode::kInvalidType},
      {R"({"prompt":"a","temperature":-1})", ApiCode::kInvalidValue},
      {R"({"prompt":"a","stream":1})", ApiCode::kInvalidType},
      {R"({"prompt":"a","user":1,"model":1})", ApiCode::kInvalidType},
      {R"({"prompt":5})", ApiCode::kInvalidType},
      {R"({"prompt":[1,"a"]})", ApiCode::kInvalidType},
      {R"({"prompt":[1,-1]})", ApiCode::kInvalidValue},
      {R"({"n":1})", ApiCode::kMissingRequiredParameter},
      {R"({"prompt":"a","suffix":"b"})", ApiCode::kUnsupportedParameter},
      {R"([])", ApiCode::kInvalidType},
  };
  for (const auto& [body, code] : cases) {
    const auto parsed = parse_completion_request(json(body));
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(parsed.error().code, code) << body;
  }
}

TEST(Requests, the_length_of_an_answer_is_called_what_the_client_called_it) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const auto parsed =
        parse_completion_request(json(fmt::format(R"({{"prompt":"a","{}":0}})", name)));
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().param, name);
    EXPECT_EQ(parsed.error().message.find(std::string(name) + ": expected at least 1"), 0u);
  }
}

// As clients of llama.cpp and Ollama mean it, also where the default is another.
TEST(Requests, minus_one_token_is_what_the_window_leaves) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict", "num_predict"}) {
    const std::string field = fmt::format(R"("{}":-1)", name);
    EXPECT_FALSE(good_completion(R"({"prompt":"a",)" + field + "}").fields.request.max_tokens);
    EXPECT_FALSE(
        good_chat(std::string("{") + kMessages + "," + field + "}").fields.request.max_tokens);
  }
  const auto both = [](const char* fields) {
    return good_completion(std::string(R"({"prompt":"a",)") + fields + "}")
        .fields.request.max_tokens;
  };
  EXPECT_EQ(both(R"("n_predict":-1.0)"), std::nullopt);
  EXPECT_EQ(both(R"("num_predict":-1.0)"), std::nullopt);
  EXPECT_EQ(both(R"("n_predict":-1,"max_tokens":5)"), 5);
  EXPECT_EQ(both(R"("max_tokens":-1,"max_completion_tokens":5)"), 5);
  EXPECT_EQ(both(R"("max_tokens":5,"max_completion_tokens":-1)"), std::nullopt);
  const auto negative = parse_completion_request(json(R"({"prompt":"a","max_tokens":-2})"));
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().message,
            "max_tokens: expected 0 or more, or -1 for what the window leaves, got -2");
}

// As the server parses bodies: ids packed.
TEST(Requests, packed_ids_read_like_others) {
  const auto parse = [](std::string body) { return parse_completion_request(*parse_body(body)); };
  const auto prompts = parse(R"({"prompt":[[1,2],[3]]})").value().prompts;
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(prompts[0]), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(std::get<std::vector<TokenId>>(parse(R"({"prompt":[7]})")->prompts.at(0)),
            std::vector<TokenId>{7});
  EXPECT_EQ(parse(R"({"prompt":[1,2],"suffix":[1]})").error().message,
            "suffix: expected a string, got an array");
  EXPECT_EQ(parse_chat_request(*parse_body(R"({"messages":[],"prompt":[1]})")).error().param,
            "messages");
  const std::string many = R"({"prompt":[)" + std::string(2 * 300'000, ' ') + "1";
  EXPECT_TRUE(parse(many + "]}"));
  std::string list = "{\"x\":[1";
  for (int i = 0; i < 300'000; ++i) {
    list += ",1";
  }
  EXPECT_EQ(parse_body(list + "]}").error().code, ApiCode::kTooManyValues);
  list.replace(0, 4, "{\"prompt\"");
  EXPECT_TRUE(parse_body(list + "]}"));
}

// Values that ask for nothing are fine, whatever sends them.
TEST(Requests, fields_that_change_nothing_pass) {
  for (const char* field : {R"("response_format":{"type":"text"})",
                            R"("parallel_tool_calls":false)",
                            R"("parallel_tool_calls":true)",
                            R"("parallel_tool_calls":false,"tools":[])",
                            R"("store":true)",
                            R"("store":false)",
                            R"("top_logprobs":0)",
                            R"("logprobs":false,"top_logprobs":0)",
                            R"("tools":[],"tool_choice":"auto")",
                            R"("tool_choice":"none")",
                            R"("logit_bias":{})",
                            R"("stop":[])",
                            R"("n":1,"user":"u","metadata":{"a":"b"},"service_tier":"auto")",
                            R"("modalities":["text"],"verbosity":"medium","prediction":null)",
                            R"("frequency_penalty":0,"presence_penalty":0,"top_p":1)",
                            R"("chat_template_kwargs":{"enable_thinking":false})"}) {
    good_chat(std::string("{") + kMessages + "," + field + "}");
  }
  for (const char* field : {R"("response_format":{"type":"text"})",
                            R"("best_of":1,"suffix":"","user":"u")",
                            R"("logprobs":null,"stop":null,"stream":false)"}) {
    good_completion(std::string(R"({"prompt":"a",)") + field + "}");
  }
}

TEST(ChatRequest, prediction_is_a_text_or_parts_of_one) {
  const auto body = [](std::string_view prediction) {
    return fmt::format(R"({{{},"prediction":{}}})", kMessages, prediction);
  };
  EXPECT_EQ(good_chat(body(R"({"type":"content","content":"int x;"})")).prediction, "int x;");
  EXPECT_EQ(good_chat(body(R"({"type":"content","content":[{"type":"text","text":"a"},)"
                           R"({"type":"text","text":"b"}]})"))
                .prediction,
            "ab");
  for (const auto& [prediction, param] : std::vector<std::pair<const char*, const char*>>{
           {R"("text")", "prediction"},
           {R"({})", "prediction"},
           {R"({"type":"tokens","content":"a"})", "prediction"},
           {R"({"type":"content"})", "prediction"},
           {R"({"type":"content","content":7})", "prediction.content"},
           {R"({"type":"content","content":[{"type":"image_url"}]})",
            "prediction.content[0].type"}}) {
    const auto parsed = parse_chat_request(json(body(prediction)));
    ASSERT_FALSE(parsed) << prediction;
    EXPECT_EQ(parsed.error().param, param) << parsed.error().message;
  }
}

// From the body to the prompt, with a template of Qwen 3's kind.
TEST(ChatRequest, chat_template_kwargs_switch_thinking_off) {
  const auto chat_template = ChatTemplate::compile(
      "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}"
      "<|assistant|>{% if enable_thinking is defined and enable_thinking is false %}"
      "<think></think>{% endif %}{% endif %}");
  ASSERT_TRUE(chat_template);
  const auto prompt = [&](const std::string& fields) {
    const ChatRequest request = good_chat(std::string("{") + kMessages + fields + "}");
    const auto pieces = chat_template->render(request.conversation);
    return pieces ? joined(*pieces) : pieces.error().message;
  };
  EXPECT_EQ(prompt(""), "<|user|>hi<|assistant|>");
  EXPECT_EQ(prompt(R"(,"chat_template_kwargs":{"enable_thinking":true})"),
            "<|user|>hi<|assistant|>");
  EXPECT_EQ(prompt(R"(,"chat_template_kwargs":{"enable_thinking":false})"),
            "<|user|>hi<|assistant|><think></think>");
}

TEST(ChatRequest, tool_choice_none_hides_the_tools) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_TRUE(
      good_chat(std::string("{") + kMessages + "," + tools + "}").conversation.tools.is_list());
  EXPECT_TRUE(good_chat(std::string("{") + kMessages + "," + tools + R"(,"tool_choice":"none"})")
                  .conversation.tools.is_none());
}

TEST(ChatRequest, continuing_the_last_message_asks_for_no_generation_prompt) {
  const ChatRequest request =
      good_chat(std::string("{") + kMessages + R"(,"continue_final_message":true})");
  EXPECT_TRUE(request.conversation.continue_final_message);
  EXPECT_FALSE(request.conversation.add_generation_prompt);
}

TEST(CompletionRequest, mistakes_are_named) {
  const Mistake mistakes[] = {
      {R"({})", "prompt", "got nothing"},
      {R"({"prompt":[]})", "prompt", "an empty array"},
      {R"({"prompt":5})", "prompt", "got 5"},
      {R"({"prompt":[-1]})", "prompt[0]", "expected a token id from 0 to 2147483647, got -1"},
      {R"({"prompt":[1,"a"]})", "prompt[1]", "expected a token id"},
      {R"({"prompt":["a",5]})", "prompt[1]", "expected text or token ids, got 5"},
      {R"({"prompt":[[]]})", "prompt[0]", "at least one token id"},
      {R"({"prompt":[[1],[2,3000000000]]})", "prompt[1][1]", "expected a token id"},
      {R"({"prompt":"a","max_tokens":0})", "max_tokens", "echo"},
      {R"({"prompt":"a","logprobs":true})", "logprobs", "expected an integer from 0 to 20"},
      {R"({"prompt":"a","logprobs":21})", "logprobs", "from 0 to 20"},
      {R"({"prompt":"a","response_format":{"type":"json_object"}})", "response_format", "only"},
      {R"({"prompt":"a","response_format":5})", "response_format", "only"},
      {R"({"prompt":"a","suffix":"b"})", "suffix", "not supported"},
      {R"({"prompt":"a","best_of":3})", "best_of", "value of n"},
      {R"({"prompt":"a","best_of":1000000})", "best_of", "from 1 to 128"},
      {R"({"prompt":["a","b"],"n":128})", "prompt", "more than 128"},
      {R"({"prompt":"a","n":0,"stream":true})", "n", "got 0"},
      {R"({"prompt":"a","truncate_prompt_tokens":5})", "truncate_prompt_tokens", "never cut"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto parsed = parse_completion_request(json(mistake.fields));
    ASSERT_FALSE(parsed) << mistake.fields;
    EXPECT_EQ(parsed.error().param, mistake.param) << mistake.fields;
    EXPECT_NE(parsed.error().message.find(mistake.message), std::string::npos)
        << parsed.error().message;
  }
}

TEST(CompletionRequest, prompts_come_in_four_forms) {
  EXPECT_EQ(std::get<Value>(good_completion(R"({"prompt":"a"})").prompts.at(0)).as_string(), "a");
  EXPECT_EQ(std::get<std::vector<TokenId>>(good_completion(R"({"prompt":[1,2]})").prompts.at(0)),
            (std::vector<TokenId>{1, 2}));
  const auto texts = good_completion(R"({"prompt":["a","b"]})").prompts;
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(std::get<Value>(texts[1]).as_string(), "b");
  const auto lists = good_completion(R"({"prompt":[[1],[2,3]]})").prompts;
  ASSERT_EQ(lists.size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(lists[1]), (std::vector<TokenId>{2, 3}));
}

TEST(CompletionRequest, echo_asks_for_the_logprobs_of_the_prompt) {
  const auto request = good_completion(R"({"prompt":"a","echo":true,"max_tokens":0,"logprobs":1})");
  EXPECT_EQ(request.fields.request.max_tokens, 0);
  EXPECT_EQ(request.fields.request.n_logprobs, 1);
  EXPECT_EQ(request.fields.request.prompt_logprobs, 1);
  const auto plain = good_completion(R"({"prompt":"a","logprobs":1})");
  EXPECT_FALSE(plain.fields.request.prompt_logprobs);
  EXPECT_EQ(plain.fields.request.max_tokens, 16);
}

// Whatever is put in the place of whatever, the answer is a request or a 400.
TEST(Requests, random_replacements_never_get_through_as_anything_else) {
  const std::string base =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"prompt":[[1,2],[3]],)"
      R"("n":2,"seed":1,"stop":["x"],"temperature":1,"logit_bias":{"1":2},"stream":true,)"
      R"("stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"f"}}],)"
      R"("logprobs":1,"echo":true,"max_tokens":4,"chat_template_kwargs":{"a":[1]}})";
  const char* values[] = {"null",
                          "true",
                          "-1",
                          "1e300",
                          "18446744073709551616",
                          "\"\"",
                          "\"\\u0000\"",
                          "[]",
                          "[[]]",
                          "{}",
                          "{\"a\":{}}",
                          "[null]",
                          "0.5"};
  std::mt19937 random(3);
  int n_parsed = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = base;
    for (int k = 0; k < 2; ++k) {
      const size_t colon = text.find(':', random() % text.size());
      const size_t end = text.find_first_of(",]}", colon);
      if (colon != std::string::npos && end != std::string::npos) {
        text.replace(colon + 1, end - colon - 1, values[random() % std::size(values)]);
      }
    }
    const auto value = parse_json(text);
    if (!value) {
      continue;
    }
    ++n_parsed;
    const auto chat = parse_chat_request(*value);
    if (!chat) {
      ASSERT_EQ(chat.error().status(), 400);
      ASSERT_FALSE(chat.error().message.empty());
    }
    const auto completion = parse_completion_request(*value);
    if (!completion) {
      ASSERT_EQ(completion.error().status(), 400);
    }
  }
  EXPECT_GT(n_parsed, 1000);
}

}  // namespace
}  // namespace millrace

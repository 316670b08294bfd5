#include "server/answer_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace millrace {
namespace {

using nlohmann::json;

// Ids 0..255 are bytes, 256 is a control token.
Tokenizer byte_tokenizer() {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    spec.tokens.push_back(spelling_of_bytes({&text, 1}));
    spec.types.push_back(TokenType::kNormal);
  }
  spec.tokens.push_back("<|end|>");
  spec.types.push_back(TokenType::kControl);
  spec.eos = 256;
  spec.end_of_generation = {256};
  auto tokenizer = Tokenizer::create(std::move(spec));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

TokenEvent token(char byte, std::string text) {
  TokenEvent event;
  event.token = static_cast<unsigned char>(byte);
  event.text = std::move(text);
  event.logprob = -0.5F;
  event.top = {{static_cast<TokenId>('x'), -0.25F}, {event.token, -0.5F}};
  return event;
}

FinishEvent finish(FinishReason reason, std::string text) {
  FinishEvent event;
  event.reason = reason;
  event.text = std::move(text);
  return event;
}

CompletionPrompt echo(std::string text, bool is_text = false) {
  return {.echo = std::make_shared<const std::string>(std::move(text)), .is_text = is_text};
}

// The JSON of each event, and whether the last one was [DONE].
std::vector<json> events(const std::string& stream) {
  std::vector<json> parsed;
  size_t at = 0;
  while (at < stream.size()) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << stream.substr(at);
    const std::string line = stream.substr(at, end - at);
    EXPECT_EQ(line.substr(0, 6), "data: ");
    EXPECT_EQ(line.find('\n'), std::string::npos);
    parsed.push_back(line == "data: [DONE]" ? json("done") : json::parse(line.substr(6)));
    at = end + 2;
  }
  return parsed;
}

class AnswerWriterTest : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = byte_tokenizer();
  const AnswerHead head_{"id-1", 1234, "a \"model\"", -7};
};

TEST_F(AnswerWriterTest, chat_stream_has_role_text_reason_usage_and_done) {
  auto writer = make_chat_writer(head_, {1, true, true, false}, tokenizer_);
  std::string out;
  writer->begin(out);
  writer->token(0, token('a', "a\n\"q\""), out);
  writer->token(0, token('\xC3', ""), out);  // nothing to show yet
  writer->finish(0, finish(FinishReason::kLength, "tail"), out);
  writer->end({{5, 2, 3}}, out);
  const auto chunks = events(out);
  ASSERT_EQ(chunks.size(), 6u);
  EXPECT_EQ(chunks[0]["choices"][0]["delta"], json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(chunks[1]["choices"][0]["delta"]["content"], "a\n\"q\"");
  EXPECT_EQ(chunks[2]["choices"][0]["delta"]["content"], "tail");
  EXPECT_EQ(chunks[3]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(chunks[3]["choices"][0]["delta"], json::object());
  EXPECT_EQ(chunks[3]["seed"], -7);
  EXPECT_FALSE(chunks[0].contains("seed") || chunks[1].contains("seed"));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(chunks[i]["id"], "id-1");
    EXPECT_EQ(chunks[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(chunks[i]["created"], 1234);
    EXPECT_EQ(chunks[i]["model"], "a \"model\"");
    EXPECT_TRUE(chunks[i].contains("usage") && chunks[i]["usage"].is_null());
  }
  EXPECT_EQ(chunks[4]["choices"], json::array());
  EXPECT_EQ(chunks[4]["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(chunks[4]["usage"]["completion_tokens"], 3);
  EXPECT_EQ(chunks[4]["usage"]["total_tokens"], 8);
  EXPECT_EQ(chunks[4]["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
  EXPECT_FALSE(chunks[4]["usage"].contains("response_cache"));
  EXPECT_EQ(chunks[5], "done");
}

TEST_F(AnswerWriterTest, without_include_usage_no_chunk_mentions_usage) {
  for (const bool is_chat : {true, false}) {
    auto writer = is_chat
                      ? make_chat_writer(head_, {1, true, false, false}, tokenizer_)
                      : make_completion_writer(head_, {1, true, false, false}, tokenizer_, {{}});
    std::string out;
    writer->begin(out);
    writer->token(0, token('a', "a"), out);
    writer->finish(0, finish(FinishReason::kStop, ""), out);
    writer->end({}, out);
    EXPECT_EQ(out.find("usage"), std::string::npos);
    EXPECT_EQ(events(out).back(), "done");
  }
}

TEST_F(AnswerWriterTest, whole_chat_joins_what_the_stream_says_for_every_choice) {
  auto writer = make_chat_writer(head_, {2, false, false, true}, tokenizer_);
  std::string out;
  writer->begin(out);
  writer->token(1, token('b', "b"), out);
  writer->token(0, token('a', "a"), out);
  writer->token(1, token('c', ""), out);
  writer->finish(1, finish(FinishReason::kStop, "c!"), out);
  writer->finish(0, finish(FinishReason::kLength, ""), out);
  EXPECT_EQ(out, "");
  writer->end({{7, 0, 3}, CacheOutcome::kMiss}, out);
  const json answer = json::parse(out);
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["usage"]["response_cache"], "miss");
  EXPECT_EQ(answer["seed"], -7);
  ASSERT_EQ(answer["choices"].size(), 2u);
  EXPECT_EQ(answer["choices"][0]["index"], 0);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "a");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][1]["message"]["content"], "bc!");
  const json entries = answer["choices"][1]["logprobs"]["content"];
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0]["token"], "b");
  EXPECT_EQ(entries[0]["bytes"], json::array({98}));
  EXPECT_EQ(entries[0]["logprob"], -0.5);
  EXPECT_EQ(entries[0]["top_logprobs"][0]["token"], "x");
  EXPECT_EQ(entries[0]["top_logprobs"].size(), 2u);
}

TEST_F(AnswerWriterTest, tokens_that_are_no_text_have_a_label_and_their_bytes) {
  EXPECT_EQ(token_label(tokenizer_, 0xC3), "bytes:\\xc3");
  EXPECT_EQ(token_label(tokenizer_, 'a'), "a");
  EXPECT_EQ(token_label(tokenizer_, 256), "<|end|>");
  EXPECT_EQ(token_label(tokenizer_, 9999), "");
}

TEST_F(AnswerWriterTest, completion_logprobs_join_to_the_text_with_echo) {
  auto writer =
      make_completion_writer(head_, {1, false, false, true}, tokenizer_, {echo("h\xC3\xA9")});
  std::string out;
  PromptEvent prompt;
  prompt.entries = {{'h', NAN, {}}, {0xC3, -1, {}}, {0xA9, -2, {{'x', -0.1F}, {'y', -0.2F}}}};
  writer->begin(out);
  writer->prompt(0, prompt, out);
  writer->token(0, token('a', "a"), out);
  writer->finish(0, finish(FinishReason::kStop, "b"), out);
  writer->end({{3, 0, 1}}, out);
  const json choice = json::parse(out)["choices"][0];
  EXPECT_EQ(choice["text"],
            "h\xC3\xA9"
            "ab");
  const json logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json::array({"h", "", "\xC3\xA9", "a"}));
  EXPECT_EQ(logprobs["text_offset"], json::array({0, 1, 1, 2}));  // in characters
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["token_logprobs"][3], -0.5);
  EXPECT_TRUE(logprobs["top_logprobs"][2].contains("\xC3\xA9"));  // its own, though not a top one
  EXPECT_EQ(logprobs["top_logprobs"][2].size(), 3u);
}

TEST_F(AnswerWriterTest,
       control_tokens_of_an_echoed_prompt_are_text_where_the_client_spelled_them) {
  PromptEvent prompt;
  for (const TokenId id : {256, 256, 256, int{'h'}, int{'i'}, 256}) {
    prompt.entries.push_back({id, -1, {}});
  }
  const auto choice_of = [&](CompletionPrompt known) {
    auto writer = make_completion_writer(head_, {1, false, false, true}, tokenizer_, {known});
    std::string out;
    writer->begin(out);
    writer->prompt(0, prompt, out);
    writer->token(0, token('a', "a"), out);
    writer->finish(0, finish(FinishReason::kStop, ""), out);
    writer->end({{6, 0, 1}}, out);
    return json::parse(out)["choices"][0];
  };
  // One of those in front has been added; the second takes the space before it along.
  const json spelled = choice_of(echo("<|end|> <|end|>hi<|end|>", true));
  EXPECT_EQ(spelled["text"], "<|end|> <|end|>hi<|end|>a");
  EXPECT_EQ(spelled["logprobs"]["tokens"],
            json::array({"<|end|>", "<|end|>", "", "h", "i", "<|end|>", "a"}));
  EXPECT_TRUE(spelled["logprobs"]["top_logprobs"][1].contains("<|end|>"));
  const json tight = choice_of(echo("<|end|><|end|>hi<|end|>", true));
  EXPECT_EQ(tight["logprobs"]["text_offset"], json::array({0, 7, 14, 14, 15, 16, 23}));
  const json from_ids = choice_of(echo("hi"));
  EXPECT_EQ(from_ids["text"], "hia");
  EXPECT_EQ(from_ids["logprobs"]["tokens"], json::array({"", "", "", "h", "i", "", "a"}));
}

TEST_F(AnswerWriterTest, streamed_completion_with_echo_begins_with_the_prompt) {
  auto writer = make_completion_writer(head_, {1, true, true, true}, tokenizer_, {echo("hi")});
  std::string out;
  writer->begin(out);
  EXPECT_EQ(out, "");
  PromptEvent prompt;
  prompt.entries = {{'h', NAN, {}}, {'i', -1, {}}};
  writer->prompt(0, prompt, out);
  writer->token(0, token('a', "a"), out);
  writer->finish(0, finish(FinishReason::kStop, ""), out);
  writer->end({{2, 0, 1}}, out);
  const auto chunks = events(out);
  ASSERT_EQ(chunks.size(), 5u);
  EXPECT_EQ(chunks[0]["choices"][0]["text"], "hi");
  EXPECT_EQ(chunks[0]["choices"][0]["logprobs"]["tokens"].size(), 2u);
  EXPECT_EQ(chunks[1]["choices"][0]["text"], "a");
  EXPECT_EQ(chunks[1]["choices"][0]["logprobs"]["text_offset"], json::array({2}));
  EXPECT_EQ(chunks[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chunks[2]["seed"], -7);
  EXPECT_FALSE(chunks[1].contains("seed"));
  EXPECT_TRUE(chunks[2]["choices"][0]["logprobs"].is_null());

  auto plain = make_completion_writer(head_, {1, true, false, false}, tokenizer_, {echo("hi")});
  out.clear();
  plain->begin(out);
  EXPECT_EQ(events(out).at(0)["choices"][0]["text"], "hi");
}

TEST_F(AnswerWriterTest, echo_of_a_prompt_alone_is_the_prompt) {
  auto writer = make_completion_writer(head_, {1, false, false, false}, tokenizer_, {echo("hi")});
  std::string out;
  writer->begin(out);
  writer->finish(0, finish(FinishReason::kLength, ""), out);
  writer->end({{2, 0, 0}}, out);
  EXPECT_EQ(json::parse(out)["choices"][0]["text"], "hi");
  EXPECT_EQ(json::parse(out)["seed"], -7);
}

}  // namespace
}  // namespace millrace

#include "text/tokenizer_json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "text/tokenizer.h"

namespace millrace {
namespace {

// A small document with one part replaced.
std::string document(const std::string& key = "", const std::string& value = "null") {
  const auto part = [&](const std::string& name, const std::string& usual) {
    return "\"" + name + "\":" + (name == key ? value : usual);
  };
  return "{" +
         part("added_tokens",
              R"([{"id":3,"content":"<|end|>","special":true},)"
              R"({"id":4,"content":"<|looks|>","special":false},)"
              R"({"id":5,"content":"<think>","special":false}])") +
         "," + part("normalizer", "null") + "," +
         part("pre_tokenizer",
              R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})") +
         "," + part("post_processor", "null") + "," + part("decoder", R"({"type":"ByteLevel"})") +
         "," +
         part("model", R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]})") + "}";
}

Error error_of(const std::string& json, const std::string& config = "") {
  const auto spec = parse_tokenizer_json(json, config, "");
  return spec ? Error{ErrorCode::kInternal, "none"} : spec.error();
}

TEST(TokenizerJson, what_is_not_known_is_refused_by_name) {
  struct Case {
    const char* key;
    const char* value;
    const char* name;
  };
  for (const Case& c : {
           Case{"model", R"({"type":"WordPiece","vocab":{}})", "WordPiece"},
           Case{"model", R"({"type":"Unigram","vocab":[]})", "Unigram"},
           Case{"model",
                R"({"type":"BPE","vocab":{},"merges":[],"end_of_word_suffix":"</w>"})",
                "end_of_word_suffix"},
           Case{"normalizer", R"({"type":"Lowercase"})", "Lowercase"},
           Case{"normalizer",
                R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"StripAccents"}]})",
                "StripAccents"},
           Case{"pre_tokenizer", R"({"type":"BertPreTokenizer"})", "BertPreTokenizer"},
           Case{"pre_tokenizer",
                R"({"type":"Split","pattern":{"Regex":"a[b&&c]"},"behavior":"Sideways"})",
                "Sideways"},
           Case{"pre_tokenizer",
                R"({"type":"Metaspace","replacement":"_","prepend_scheme":"maybe"})",
                "maybe"},
           Case{"post_processor", R"({"type":"BertProcessing"})", "BertProcessing"},
           Case{"decoder", R"({"type":"WordPiece"})", "WordPiece"},
           Case{"decoder", R"({"type":"Strip","content":"x","start":1,"stop":0})", "Strip"},
       }) {
    const Error error = error_of(document(c.key, c.value));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << c.value;
    EXPECT_NE(error.message.find(c.name), std::string::npos) << error.message;
  }
}

TEST(TokenizerJson, a_damaged_document_is_corrupt) {
  for (const std::string& json :
       {std::string("{"),
        std::string("[]"),
        document("model", R"({"type":"BPE"})"),
        document("model", R"({"type":"BPE","vocab":[],"merges":[]})"),
        document("model", R"({"type":"BPE","vocab":{"a":-1},"merges":[]})"),
        document("model", R"({"type":"BPE","vocab":{"a":99999999},"merges":[]})"),
        document("model", R"({"type":"BPE","vocab":{},"merges":["ab"]})"),
        document("model", R"({"type":"BPE","vocab":{},"merges":[["a"]]})"),
        document("added_tokens", R"([{"id":1}])"),
        document("post_processor",
                 R"({"type":"TemplateProcessing","single":[{"SpecialToken":)"
                 R"({"id":"<s>"}}],"special_tokens":{}})")}) {
    EXPECT_EQ(error_of(json).code, ErrorCode::kCorrupt) << json;
  }
  EXPECT_EQ(error_of(document(), "[1]").code, ErrorCode::kCorrupt);
}

TEST(TokenizerJson, tokens_that_look_like_control_tokens_are_control_tokens) {
  const auto spec = parse_tokenizer_json(document(), "", "");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->types[3], TokenType::kControl);
  EXPECT_EQ(spec->types[4], TokenType::kControl);
  EXPECT_EQ(spec->types[5], TokenType::kUserDefined);
}

TEST(TokenizerJson, configuration_names_special_tokens_and_may_hold_numbers_of_any_length) {
  const std::string config =
      R"({"model_max_length":1000000000000000019884624838656,"bos_token":{"content":"<think>"},)"
      R"("eos_token":"<|end|>","note":"12345678901234567890123 \" 1","add_bos_token":true})";
  const auto spec = parse_tokenizer_json(document(), config, R"({"eos_token_id":[3,4,77]})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->bos, 5);
  EXPECT_EQ(spec->eos, 3);
  EXPECT_EQ(spec->prefix, std::vector<TokenId>{5});
  EXPECT_EQ(spec->end_of_generation, (std::vector<TokenId>{3, 4}));
}

TEST(TokenizerJson, config_json_names_what_ends_an_answer_where_generation_config_does_not) {
  const auto ends = [](const char* generation, const char* model) {
    const auto spec = parse_tokenizer_json(document(), "", generation, model);
    EXPECT_TRUE(spec) << spec.error().message;
    return spec->end_of_generation;
  };
  const std::vector<TokenId> none = ends("", "");
  EXPECT_EQ(none, std::vector<TokenId>{3});  // "<|end|>", by its spelling
  EXPECT_EQ(ends("", R"({"eos_token_id":1})"), (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(ends(R"({"eos_token_id":[2]})", R"({"eos_token_id":1})"), (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(ends(R"({"eos_token_id":null})", R"({"eos_token_id":[0,1]})"),
            (std::vector<TokenId>{0, 1, 3}));
  const auto damaged = parse_tokenizer_json(document(), "", "", "{");
  ASSERT_FALSE(damaged);
  EXPECT_NE(damaged.error().message.find("[config.json]"), std::string::npos);
}

TEST(TokenizerJson, add_bos_token_false_takes_the_template_s_bos_away) {
  const std::string json =
      document("post_processor",
               R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|end|>"}},)"
               R"({"Sequence":{"id":"A"}}],"special_tokens":{"<|end|>":{"ids":[3]}}})");
  const std::string bos = R"({"bos_token":"<|end|>")";
  EXPECT_EQ(parse_tokenizer_json(json, bos + "}", "")->prefix, std::vector<TokenId>{3});
  EXPECT_TRUE(parse_tokenizer_json(json, bos + R"(,"add_bos_token":false})", "")->prefix.empty());
}

TEST(TokenizerJson, a_missing_file_is_not_found) {
  const auto spec = load_tokenizer_json("/nonexistent/tokenizer.json");
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code, ErrorCode::kNotFound);
}

TEST(TokenizerJson, damaged_bytes_never_do_more_than_fail) {
  std::ifstream file(MILLRACE_SOURCE_DIR "/tests/tokenizer/data/llama_style/tokenizer.json");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string good = text.str();
  ASSERT_GT(good.size(), 1000u);
  std::mt19937 random(6);
  int n_made = 0;
  for (int round = 0; round < 600; ++round) {
    std::string json = good;
    for (int n = round % 4; n >= 0; --n) {
      json[random() % json.size()] = static_cast<char>(random() % 128);
    }
    if (round % 8 == 7) {
      json.resize(random() % json.size());
    }
    auto spec = parse_tokenizer_json(json, "", "");
    if (spec) {
      const auto tokenizer = Tokenizer::create(std::move(*spec));
      if (tokenizer) {
        tokenizer->decode(tokenizer->encode("The water <s> \U0001F999 rose.", true, true));
        ++n_made;
      }
    }
  }
  EXPECT_GT(n_made, 0);  // some damage is only to a token's spelling
}

}  // namespace
}  // namespace millrace

#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "text/tokenizer_test_data.h"

namespace millrace {
namespace {

Tokenizer load(const std::string& name) {
  return load_test_tokenizer(MILLRACE_SOURCE_DIR, name);
}

// The ids of the bytes of a text one by one.
std::vector<TokenId> byte_ids(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const char byte : bytes) {
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (tokenizer.token_bytes(id) == std::string_view(&byte, 1)) {
        ids.push_back(id);
        break;
      }
    }
  }
  return ids;
}

std::vector<std::string> push_all(Detokenizer& detokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> parts;
  for (const TokenId id : ids) {
    parts.push_back(detokenizer.push(id));
  }
  return parts;
}

using Parts = std::vector<std::string>;

TEST(Detokenizer, a_control_token_that_was_spelled_is_text_behind_which_no_space_is_dropped) {
  for (const std::string& name : test_tokenizer_names()) {
    const Tokenizer tokenizer = load(name);
    TokenId control = 0;
    while (control < tokenizer.vocab_size() && !tokenizer.is_control(control)) {
      ++control;
    }
    ASSERT_LT(control, tokenizer.vocab_size()) << name;
    Detokenizer detokenizer(tokenizer);
    EXPECT_EQ(detokenizer.push(control), "");
    std::string text = detokenizer.push_spelled(control);
    EXPECT_EQ(text, tokenizer.token_text(control));
    for (const TokenId id : byte_ids(tokenizer, " a")) {
      text += detokenizer.push_spelled(id);
    }
    EXPECT_EQ(text, std::string(tokenizer.token_text(control)) + " a") << name;
  }
}

TEST(Detokenizer, random_ids_stream_to_what_they_decode_to) {
  std::mt19937 random(5);
  for (const std::string& name : test_tokenizer_names()) {
    const Tokenizer tokenizer = load(name);
    for (int round = 0; round < 400; ++round) {
      std::vector<TokenId> ids;
      for (std::size_t n = random() % 30; n > 0; --n) {
        // Byte tokens are near the start of these vocabularies; a few ids lie outside.
        const auto range = static_cast<unsigned>(tokenizer.vocab_size());
        ids.push_back(static_cast<TokenId>(random() % (random() % 2 == 0 ? 300 : range + 5)));
      }
      const bool show_control = random() % 2 == 0;
      Detokenizer detokenizer(tokenizer, {}, show_control);
      std::string text;
      for (const TokenId id : ids) {
        const std::string part = detokenizer.push(id);
        EXPECT_TRUE(is_valid_utf8(part));
        text += part;
      }
      text += detokenizer.flush();
      EXPECT_EQ(text, tokenizer.decode(ids, show_control)) << name;
    }
  }
}

TEST(Detokenizer, holds_the_bytes_of_a_character_until_it_is_whole) {
  const Tokenizer tokenizer = load("smollm_style");
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(push_all(detokenizer, byte_ids(tokenizer, "\xC4\x8F\xF0\x9F\xA6\x99")),
            (Parts{"", "\u010F", "", "", "", "\U0001F999"}));
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, a_broken_character_becomes_one_replacement_character) {
  const Tokenizer tokenizer = load("smollm_style");
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(push_all(detokenizer, byte_ids(tokenizer, "\xF0\x9F a\x80")),
            (Parts{"", "", "\uFFFD ", "a", "\uFFFD"}));
  EXPECT_EQ(push_all(detokenizer, byte_ids(tokenizer, "\xE4\xBD")), (Parts{"", ""}));
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, a_character_begun_in_the_prompt_is_completed_and_nothing_else_of_it_is_shown) {
  const Tokenizer tokenizer = load("smollm_style");
  const auto prompt = byte_ids(tokenizer, "hot \xF0\x9F\x8C");
  Detokenizer completed(tokenizer, prompt);
  EXPECT_EQ(push_all(completed, byte_ids(tokenizer, "\xB6!")), (Parts{"\U0001F336", "!"}));
  Detokenizer abandoned(tokenizer, prompt);
  EXPECT_EQ(push_all(abandoned, byte_ids(tokenizer, "no")), (Parts{"n", "o"}));
  Detokenizer unanswered(tokenizer, prompt);
  EXPECT_EQ(unanswered.flush(), "");
}

TEST(Detokenizer, sentence_piece_spaces_stay_and_the_first_one_goes_once) {
  const Tokenizer tokenizer = load("llama_style");
  const TokenId space = tokenizer.find_token("\u2581");
  const TokenId the = tokenizer.find_token("\u2581the");
  ASSERT_NE(space, kNoToken);
  ASSERT_NE(the, kNoToken);
  Detokenizer words(tokenizer);
  EXPECT_EQ(push_all(words, {tokenizer.bos(), the, the}), (Parts{"", "the", " the"}));
  Detokenizer spaces(tokenizer);
  EXPECT_EQ(push_all(spaces, {space, the, space}), (Parts{"", " the", " "}));
}

TEST(Detokenizer, after_a_prompt_with_text_no_space_goes) {
  const Tokenizer tokenizer = load("llama_style");
  const TokenId the = tokenizer.find_token("\u2581the");
  Detokenizer after_text(tokenizer, std::vector<TokenId>{tokenizer.bos(), the});
  EXPECT_EQ(after_text.push(the), " the");
  Detokenizer after_bos(tokenizer, std::vector<TokenId>{tokenizer.bos()});
  EXPECT_EQ(after_bos.push(the), "the");
}

TEST(Detokenizer, byte_level_answers_keep_their_first_space) {
  const Tokenizer tokenizer = load("smollm_style");
  const std::vector<TokenId> ids = tokenizer.encode(" the", false, false);
  Detokenizer detokenizer(tokenizer);
  std::string text;
  for (const TokenId id : ids) {
    text += detokenizer.push(id);
  }
  EXPECT_EQ(text, " the");
}

TEST(Detokenizer, control_unknown_and_padded_ids_are_empty) {
  const Tokenizer tokenizer = load("smollm_style");
  const TokenId end = tokenizer.find_token("<|im_end|>");
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(push_all(detokenizer, {end, tokenizer.vocab_size() + 200, -1}), (Parts{"", "", ""}));
  Detokenizer open(tokenizer, {}, true);
  EXPECT_EQ(open.push(end), "<|im_end|>");
}

}  // namespace
}  // namespace millrace

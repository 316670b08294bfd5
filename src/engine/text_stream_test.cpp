#include "engine/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer.h"

namespace millrace {
namespace {

// Tokens are their own spelling; the byte tokens make characters in pieces.
Tokenizer make_tokenizer(const std::vector<std::string>& words) {
  GgufTokenizerFields fields;
  fields.model = "llama";
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    tokens.emplace_back(name);
    types.push_back(6);
  }
  for (const std::string& word : words) {
    tokens.push_back(word);
    types.push_back(1);
  }
  fields.tokens.assign(tokens.begin(), tokens.end());
  fields.token_types = types;
  fields.scores.assign(tokens.size(), 0.0F);
  fields.unknown = 0;
  fields.bos = 1;
  fields.eos = 2;
  auto spec = tokenizer_spec_from_gguf_fields(fields);
  EXPECT_TRUE(spec) << spec.error().message;
  auto tokenizer = Tokenizer::create(std::move(*spec));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

TokenId byte_token(int byte) {
  return 3 + byte;
}
constexpr TokenId kFirstWord = 3 + 256;

// What a reader sees of an answer.
struct Seen {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<std::string> pieces;
  bool is_stopped = false;
};

class TextStreamTest : public testing::Test {
 protected:
  void pop_all(TextStream& stream, Seen& seen) {
    TokenEvent event;
    while (stream.pop(event)) {
      seen.ids.push_back(event.token);
      seen.pieces.push_back(event.text);
      seen.text += event.text;
    }
  }

  Seen run(const std::vector<TokenId>& tokens, std::vector<std::string> stop) {
    const std::vector<TokenId> prompt = {1, kFirstWord};
    TextStream stream(tokenizer_, prompt, std::move(stop));
    Seen seen;
    for (const TokenId token : tokens) {
      seen.is_stopped = stream.push({.token = token});
      pop_all(stream, seen);
      if (seen.is_stopped) {
        break;
      }
    }
    if (!seen.is_stopped) {
      stream.finish();
      pop_all(stream, seen);
      seen.text += stream.tail();
    }
    EXPECT_EQ(stream.n_popped(), static_cast<int64_t>(seen.ids.size()));
    EXPECT_EQ(stream.has_matched(), seen.is_stopped);
    return seen;
  }

  TokenId word(int i) const { return kFirstWord + i; }

  const std::vector<std::string> words_ = {"ABC", "DEF", "G", "HI", "J", "D", "\xE2\x96\x81x"};
  const Tokenizer tokenizer_ = make_tokenizer(words_);
};

TEST_F(TextStreamTest, no_part_of_a_stop_string_over_several_tokens_is_shown) {
  const Seen seen = run({word(0), word(1), word(2), word(3), word(4)}, {"DEFGHIJ"});
  EXPECT_TRUE(seen.is_stopped);
  EXPECT_EQ(seen.text, "ABC");
  EXPECT_THAT(seen.ids, testing::ElementsAre(word(0)));
}

TEST_F(TextStreamTest, stop_string_inside_a_token_is_found_and_the_token_shortened) {
  Seen seen = run({word(0), word(1), word(2)}, {"EF"});
  EXPECT_EQ(seen.text, "ABCD");
  EXPECT_THAT(seen.ids, testing::ElementsAre(word(0), word(1)));
  seen = run({word(0), word(1), word(2)}, {"DE"});  // nothing of DEF is left
  EXPECT_EQ(seen.text, "ABC");
  EXPECT_THAT(seen.ids, testing::ElementsAre(word(0)));
}

TEST_F(TextStreamTest, what_was_held_back_is_shown_when_the_answer_ends_otherwise) {
  const Seen seen = run({word(0), word(1), word(2)}, {"DEFGHIJ"});
  EXPECT_FALSE(seen.is_stopped);
  EXPECT_EQ(seen.text, "ABCDEFG");
  EXPECT_EQ(seen.ids.size(), 3U);
}

TEST_F(TextStreamTest, tokens_are_held_only_while_they_may_begin_a_stop_string) {
  const std::vector<TokenId> prompt = {1};
  TextStream stream(tokenizer_, prompt, {"DEFX"});
  TokenEvent event;
  EXPECT_FALSE(stream.push({.token = word(1)}));
  EXPECT_FALSE(stream.pop(event));
  EXPECT_FALSE(stream.push({.token = word(2)}));  // "DEFG" is no beginning any more
  EXPECT_TRUE(stream.pop(event));
  EXPECT_EQ(event.text, "DEF");
  EXPECT_TRUE(stream.pop(event));
  EXPECT_EQ(event.text, "G");
  EXPECT_FALSE(stream.pop(event));
}

TEST_F(TextStreamTest, of_several_stop_strings_the_one_that_ends_first_counts) {
  EXPECT_EQ(run({word(0)}, {"C", "BC", "AB"}).text, "");  // AB ends at 2
  EXPECT_EQ(run({word(0)}, {"C", "BC"}).text, "A");       // both end at 3, the longer begins first
  EXPECT_EQ(run({word(0), word(1)}, {"CDEF", "D"}).text, "ABC");
}

TEST_F(TextStreamTest, character_in_pieces_appears_with_its_last_token) {
  const Seen seen =
      run({byte_token(0xF0), byte_token(0x9F), byte_token(0x8C), byte_token(0xB6)}, {"zz"});
  EXPECT_EQ(seen.text, "\xF0\x9F\x8C\xB6");
  EXPECT_THAT(seen.pieces, testing::ElementsAre("", "", "", "\xF0\x9F\x8C\xB6"));
}

TEST_F(TextStreamTest, character_that_stays_incomplete_becomes_a_replacement_at_the_end) {
  EXPECT_EQ(run({word(0), byte_token(0xF0), byte_token(0x9F)}, {}).text, "ABC\xEF\xBF\xBD");
}

TEST_F(TextStreamTest, tokens_that_may_not_stop_do_not) {
  const std::vector<TokenId> prompt = {1};
  TextStream stream(tokenizer_, prompt, {"ABC"});
  EXPECT_FALSE(stream.push({.token = word(0)}, false));
  EXPECT_TRUE(stream.push({.token = word(0)}, true));
}

// Against the plain definition: the text up to the first byte at which a stop string ends.
TEST_F(TextStreamTest, equals_a_search_in_the_whole_text_for_random_answers) {
  std::mt19937 random(1);
  const std::string alphabet = "ABCDEFGHIJ";
  int n_stopped = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::vector<TokenId> tokens;
    std::string whole;
    for (int i = 0; i < 12; ++i) {
      const int pick = static_cast<int>(random() % 9);
      if (pick < 6) {
        tokens.push_back(word(pick));
        whole += words_[static_cast<size_t>(pick)];
      } else {
        const char c = alphabet[random() % alphabet.size()];
        tokens.push_back(byte_token(c));
        whole += c;
      }
    }
    std::vector<std::string> stop;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      const size_t begin = random() % whole.size();
      std::string text = whole.substr(begin, 1 + random() % 5);
      if (random() % 3 == 0) {
        text += alphabet[random() % alphabet.size()];
      }
      stop.push_back(text);
    }
    std::string expected = whole;
    for (size_t end = 1; end <= whole.size(); ++end) {
      size_t longest = 0;
      for (const std::string& text : stop) {
        if (whole.substr(0, end).ends_with(text)) {
          longest = std::max(longest, text.size());
        }
      }
      if (longest > 0) {
        expected = whole.substr(0, end - longest);
        ++n_stopped;
        break;
      }
    }
    const Seen seen = run(tokens, stop);
    ASSERT_EQ(seen.text, expected) << whole << " stop " << testing::PrintToString(stop);
    std::string pieces;
    for (const TokenId id : seen.ids) {
      pieces += tokenizer_.token_bytes(id);
    }
    ASSERT_TRUE(pieces.starts_with(expected));
    const size_t last = seen.ids.empty() ? 0 : tokenizer_.token_bytes(seen.ids.back()).size();
    ASSERT_TRUE(expected.empty() || pieces.size() - last < expected.size());
  }
  EXPECT_GT(n_stopped, 1'000);
}

}  // namespace
}  // namespace millrace

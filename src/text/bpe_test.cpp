#include "text/bpe.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

namespace millrace {
namespace {

struct Model {
  TokenizerSpec spec;
  TokenStrings strings;
  std::unique_ptr<TokenIndex> index;
  std::unique_ptr<Bpe> bpe;

  void finish() {
    for (const std::string& token : spec.tokens) {
      strings.append(token);
    }
    spec.types.assign(spec.tokens.size(), TokenType::kNormal);
    index = std::make_unique<TokenIndex>(strings);
    auto made = Bpe::create(spec, strings, *index);
    ASSERT_TRUE(made) << made.error().message;
    bpe = std::make_unique<Bpe>(std::move(*made));
  }
};

// Tokens over the letters a to d, each made of two earlier ones.
std::unique_ptr<Model> make_random_merges(std::mt19937& random) {
  auto model = std::make_unique<Model>();
  model->spec.tokens = {"a", "b", "c", "d"};
  std::map<std::string, bool> known;
  for (int tries = 0; tries < 60; ++tries) {
    auto& tokens = model->spec.tokens;
    const std::string left = tokens[random() % tokens.size()];
    const std::string right = tokens[random() % tokens.size()];
    if (left.size() + right.size() < 12 && !known[left + "|" + right]) {
      known[left + "|" + right] = true;
      model->spec.merges.push_back({left, right});
      if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) {
        tokens.push_back(left + right);
      }
    }
  }
  model->finish();
  return model;
}

// The definition: again and again the best pair, leftmost among equals. rank_of: lower is better.
template <class RankOf>
std::vector<std::string> merge_naively(const std::string& text, const RankOf& rank_of) {
  std::vector<std::string> symbols;
  for (const char c : text) {
    symbols.emplace_back(1, c);
  }
  while (true) {
    double best = std::numeric_limits<double>::infinity();
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const double rank = rank_of(symbols[i], symbols[i + 1]);
      if (rank < best) {
        best = rank;
        at = i;
      }
    }
    if (best == std::numeric_limits<double>::infinity()) {
      return symbols;
    }
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<long>(at) + 1);
  }
}

std::vector<std::string> encode(const Model& model, BpeScratch& scratch, const std::string& text) {
  std::vector<TokenId> ids;
  model.bpe->encode(text, scratch, ids);
  std::vector<std::string> tokens;
  for (const TokenId id : ids) {
    tokens.emplace_back(model.strings[id]);
  }
  return tokens;
}

std::string make_word(std::mt19937& random, std::size_t n) {
  std::string word;
  const unsigned letters = 1 + random() % 4;
  while (word.size() < n) {
    word.push_back(static_cast<char>('a' + random() % letters));
  }
  return word;
}

TEST(Bpe, short_and_long_words_merge_as_defined) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const auto model = make_random_merges(random);
    BpeScratch scratch;
    std::map<std::pair<std::string, std::string>, double> ranks;
    for (std::size_t i = 0; i < model->spec.merges.size(); ++i) {
      ranks.emplace(std::pair(model->spec.merges[i].left, model->spec.merges[i].right), i);
    }
    const auto rank_of = [&](const std::string& left, const std::string& right) {
      const auto rank = ranks.find({left, right});
      return rank == ranks.end() ? std::numeric_limits<double>::infinity() : rank->second;
    };
    for (const std::size_t n : {1, 2, 3, 7, 20, 47, 48, 49, 50, 130}) {
      const std::string word = make_word(random, n);
      const auto expected = merge_naively(word, rank_of);
      EXPECT_EQ(encode(*model, scratch, word), expected) << word;
      EXPECT_EQ(encode(*model, scratch, word), expected) << "from the cache: " << word;
    }
  }
}

TEST(Bpe, scored_tokens_merge_highest_score_first_and_leftmost_among_equals) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    auto model = std::make_unique<Model>();
    model->spec.kind = TokenizerSpec::Kind::kSentencePieceBpe;
    model->spec.tokens = {"a", "b", "c"};  // d is a part of tokens but no token
    for (int i = 0; i < 40; ++i) {
      const std::string token = make_word(random, 2 + random() % 4);
      auto& tokens = model->spec.tokens;
      if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) {
        tokens.push_back(token);
      }
    }
    std::map<std::string, double> scores;
    for (const std::string& token : model->spec.tokens) {
      model->spec.scores.push_back(-static_cast<float>(random() % 12));  // many are equal
      scores[token] = model->spec.scores.back();
    }
    model->spec.tokens.push_back("<0x64>");
    model->spec.scores.push_back(0);
    model->spec.tokens.push_back("\u2581");
    model->spec.scores.push_back(0);
    model->finish();
    const auto rank_of = [&](const std::string& left, const std::string& right) {
      const auto score = scores.find(left + right);
      return score == scores.end() ? std::numeric_limits<double>::infinity() : -score->second;
    };
    BpeScratch scratch;
    for (const std::size_t n : {2, 5, 20, 48, 49, 100}) {
      const std::string word = make_word(random, n);
      std::vector<std::string> expected = merge_naively(word, rank_of);
      // A letter without a token has no byte token of the right type here: it is dropped.
      std::erase(expected, "d");
      EXPECT_EQ(encode(*model, scratch, word), expected) << word;
    }
  }
}

TEST(Bpe, bytes_without_a_token_are_unknown_and_fuse_when_asked) {
  for (const bool fuses : {false, true}) {
    Model model;
    model.spec.tokens = {"a", "?"};
    model.spec.unknown = 1;
    model.spec.fuses_unknown = fuses;
    model.finish();
    BpeScratch scratch;
    const std::vector<std::string> expected = fuses ? std::vector<std::string>{"a", "?", "a"}
                                                    : std::vector<std::string>{"a", "?", "?", "a"};
    EXPECT_EQ(encode(model, scratch, "axya"), expected);
  }
}

TEST(Bpe, a_whole_token_wins_over_merges_only_where_the_model_says_so) {
  for (const bool ignores : {false, true}) {
    Model model;
    model.spec.tokens = {"a", "b", "c", "ab", "abc"};  // no merge makes abc
    model.spec.merges = {{"a", "b"}};
    model.spec.ignores_merges = ignores;
    model.finish();
    BpeScratch scratch;
    EXPECT_EQ(encode(model, scratch, "abc"),
              ignores ? std::vector<std::string>{"abc"} : (std::vector<std::string>{"ab", "c"}));
  }
}

TEST(Bpe, scored_tokens_of_absurd_length_are_refused) {
  TokenizerSpec spec;
  spec.kind = TokenizerSpec::Kind::kSentencePieceBpe;
  spec.tokens = {std::string(100'000, 'x')};
  spec.types = {TokenType::kNormal};
  spec.scores = {0};
  TokenStrings strings;
  strings.append(spec.tokens[0]);
  const TokenIndex index(strings);
  const auto bpe = Bpe::create(spec, strings, index);
  ASSERT_FALSE(bpe);
  EXPECT_EQ(bpe.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace millrace

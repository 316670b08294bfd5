#include "formats/synth_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"

namespace millrace {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr int32_t kUnused = 5;

// Where a family keeps its control tokens when the vocabulary has the published size.
struct FamilyLayout {
  const char* pre;
  int n_published;
  int n_before;   // control tokens before the byte tokens
  int n_control;  // control tokens behind the merged tokens
  int n_unused;   // rows behind those that no text reaches
  const char* bos;
  bool add_bos;
};
constexpr FamilyLayout kFamilies[] = {
    {"qwen2", 151936, 0, 26, 267, "<|endoftext|>", false},
    {"llama-bpe", 128256, 0, 256, 0, "<|begin_of_text|>", true},
    {"smollm", 49152, 17, 0, 0, "<|im_start|>", false},
};
constexpr FamilyLayout kOtherSize = {"", 0, 0, 4, 0, "<|endoftext|>", false};

FamilyLayout find_layout(const std::string& pre, int n_tokens) {
  for (const FamilyLayout& family : kFamilies) {
    if (pre != family.pre) {
      continue;
    }
    if (n_tokens == family.n_published) {
      return family;
    }
    FamilyLayout layout = kOtherSize;
    layout.bos = family.bos;
    layout.add_bos = family.add_bos;
    return layout;
  }
  return kOtherSize;
}

// GPT-2's printable stand-ins: visible Latin-1 characters stand for themselves, the other bytes for
// the code points from 256 on.
std::array<std::string, 256> byte_alphabet() {
  std::array<std::string, 256> alphabet;
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_visible = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    append_utf8(alphabet[byte], is_visible ? static_cast<char32_t>(byte) : next++);
  }
  return alphabet;
}

// Collects merges until it has enough; each pair names tokens that exist already.
class MergeList {
 public:
  MergeList(SynthVocabulary& vocabulary, int n_merges) : vocabulary_(vocabulary), n_(n_merges) {}

  bool is_full() const { return static_cast<int>(vocabulary_.merges.size()) >= n_; }
  void add(const std::string& left, const std::string& right) {
    if (is_full()) {
      return;
    }
    vocabulary_.merges.push_back(left + " " + right);
    vocabulary_.tokens.push_back(left + right);
    vocabulary_.types.push_back(kNormal);
  }

 private:
  SynthVocabulary& vocabulary_;
  int n_;
};

// Letter groups of one to four letters, within a word and at its start, frequent letters first, so
// that English text comes to about three characters a token.
void add_merges(SynthVocabulary& vocabulary, int n_merges) {
  MergeList list(vocabulary, n_merges);
  const std::array<std::string, 256> alphabet = byte_alphabet();
  const std::string& space = alphabet[' '];
  const std::string& newline = alphabet['\n'];
  constexpr std::string_view kLetters = "etaoinshrdlcumwfgypbvkjxqz";
  const auto letter = [&](int i) { return std::string(1, kLetters[static_cast<size_t>(i)]); };

  std::vector<std::pair<int, int>> pairs;
  for (int a = 0; a < 26; ++a) {
    for (int b = 0; b < 26; ++b) {
      pairs.emplace_back(a, b);
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& x, const auto& y) {
    return (x.first + 1) * (x.second + 1) < (y.first + 1) * (y.second + 1);
  });
  std::vector<std::string> pair_texts;
  for (const auto& [a, b] : pairs) {
    pair_texts.push_back(letter(a) + letter(b));
  }

  for (const auto& [a, b] : pairs) {
    list.add(letter(a), letter(b));
  }
  for (int i = 0; i < 26; ++i) {
    list.add(space, letter(i));
  }
  list.add(newline, newline);
  for (std::string run = space; run.size() < 16 * space.size(); run += run) {
    list.add(run, run);
  }
  for (const std::string& pair : pair_texts) {
    list.add(space, pair);
  }
  for (const auto& [a, b] : pairs) {
    list.add(std::string(1, static_cast<char>(kLetters[static_cast<size_t>(a)] - 'a' + 'A')),
             letter(b));
  }
  for (int i = 0; i < 26; ++i) {
    for (const std::string& pair : pair_texts) {
      list.add(pair, letter(i));
    }
  }
  for (int i = 0; i < 26; ++i) {
    for (const std::string& pair : pair_texts) {
      list.add(space + pair, letter(i));
    }
  }
  const size_t n_pairs = pair_texts.size();
  for (size_t sum = 0; sum < 2 * n_pairs - 1 && !list.is_full(); ++sum) {
    const size_t first = sum < n_pairs ? 0 : sum - n_pairs + 1;
    for (size_t i = first; i <= std::min(sum, n_pairs - 1); ++i) {
      list.add(pair_texts[i], pair_texts[sum - i]);
      list.add(space + pair_texts[i], pair_texts[sum - i]);
    }
  }
  MR_CHECK(list.is_full(), "{} merges are more than the letters give", n_merges);
}

void add_control_tokens(SynthVocabulary& vocabulary, int n) {
  constexpr std::string_view kNamed[] = {
      "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>"};
  for (int i = 0; i < n; ++i) {
    const bool is_named = i < static_cast<int>(std::size(kNamed));
    vocabulary.tokens.push_back(is_named ? std::string(kNamed[i])
                                         : fmt::format("<|reserved_{}|>", i));
    vocabulary.types.push_back(kControl);
  }
}

TokenId find_token(const SynthVocabulary& vocabulary, std::string_view text) {
  const auto at = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), text);
  MR_CHECK(at != vocabulary.tokens.end(), "{}", text);
  return static_cast<TokenId>(at - vocabulary.tokens.begin());
}

constexpr const char* kChatTemplate =
    "{%- for message in messages -%}\n"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

}  // namespace

SynthVocabulary make_synth_vocabulary(const std::string& pre, int n_tokens) {
  const FamilyLayout layout = find_layout(pre, n_tokens);
  const int n_merges = n_tokens - 256 - layout.n_before - layout.n_control - layout.n_unused;
  MR_CHECK(n_merges >= 0, "{} tokens", n_tokens);
  SynthVocabulary vocabulary;
  vocabulary.pre = pre;
  vocabulary.tokens.reserve(static_cast<size_t>(n_tokens));
  vocabulary.merges.reserve(static_cast<size_t>(n_merges));
  add_control_tokens(vocabulary, layout.n_before);
  for (const std::string& byte : byte_alphabet()) {
    vocabulary.tokens.push_back(byte);
    vocabulary.types.push_back(kNormal);
  }
  add_merges(vocabulary, n_merges);
  add_control_tokens(vocabulary, layout.n_control);
  for (int i = 0; i < layout.n_unused; ++i) {
    vocabulary.tokens.push_back(fmt::format("[PAD{}]", vocabulary.tokens.size()));
    vocabulary.types.push_back(kUnused);
  }
  vocabulary.bos = find_token(vocabulary, layout.bos);
  vocabulary.eos = find_token(vocabulary, "<|im_end|>");
  vocabulary.padding = find_token(vocabulary, "<|endoftext|>");
  vocabulary.add_bos = layout.add_bos;
  return vocabulary;
}

void add_tokenizer_metadata(const SynthVocabulary& vocabulary, GgufBuilder& builder) {
  builder.add("tokenizer.ggml.model", "gpt2");
  builder.add("tokenizer.ggml.pre", vocabulary.pre);
  builder.add("tokenizer.ggml.tokens", std::span(vocabulary.tokens));
  builder.add("tokenizer.ggml.token_type", std::span(vocabulary.types));
  builder.add("tokenizer.ggml.merges", std::span(vocabulary.merges));
  builder.add("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(vocabulary.bos));
  builder.add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(vocabulary.eos));
  builder.add("tokenizer.ggml.padding_token_id", static_cast<uint32_t>(vocabulary.padding));
  builder.add("tokenizer.ggml.add_bos_token", vocabulary.add_bos);
  builder.add("tokenizer.chat_template", kChatTemplate);
}

}  // namespace millrace

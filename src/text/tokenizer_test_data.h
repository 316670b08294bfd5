#pragma once
// The small tokenizers of tests/tokenizer/data (tools/make_test_tokenizers.py) and seeded texts,
// for tests. Any thread.

#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace millrace {

inline const std::vector<std::string>& test_tokenizer_names() {
  static const std::vector<std::string> names = {
      "falcon_style", "gpt2_style", "smollm_style", "llama_style", "metaspace_style"};
  return names;
}

inline TokenizerSpec load_test_spec(const std::string& source_folder, const std::string& name) {
  auto spec = load_tokenizer_json(source_folder + "/tests/tokenizer/data/" + name);
  MR_CHECK(spec.has_value(), "{}", spec.error().message);
  return std::move(*spec);
}

inline Tokenizer load_test_tokenizer(const std::string& source_folder, const std::string& name) {
  auto tokenizer = Tokenizer::create(load_test_spec(source_folder, name));
  MR_CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
  return std::move(*tokenizer);
}

// Words, spaces, digits, marks, emoji and any other characters; valid UTF-8.
inline std::string make_random_text(std::mt19937& random, int n_parts) {
  static const std::vector<std::string> parts = {
      "the",  " water", "They'd",     " 2,048",  "365",
      " ",    "   ",    "\n",         "\r\n\n",  "\t",
      "...",  "?!",     "über",       "e\u0301", "你好",
      " мир", "\u2581", "\U0001F999", "\u200d",  "\xC2\xA0",
      "a",    "<",      "|>",         "im_end",  "\U0001F468\u200d\U0001F469",
      "عالم", "<0x0A>"};
  std::string text;
  for (int i = 0; i < n_parts; ++i) {
    if (random() % 4 == 0) {
      char32_t code_point = random() % 0x110000;
      if (code_point >= 0xD800 && code_point <= 0xDFFF) {
        code_point = 'x';
      }
      append_utf8(text, code_point);
    } else {
      text += parts[random() % parts.size()];
    }
  }
  return text;
}

}  // namespace millrace

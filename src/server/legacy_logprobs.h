#pragma once
// The logprobs object of /v1/completions: four parallel arrays. One per choice, on its I/O thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/token_stream.h"
#include "text/detokenizer.h"

namespace millrace {

class LegacyLogprobs {
 public:
  // prompt_tail: the ids before the first one added.
  LegacyLogprobs(const Tokenizer& tokenizer, std::span<const TokenId> prompt_tail)
      : tokenizer_(tokenizer), detokenizer_(tokenizer, prompt_tail) {}

  // The characters of an echoed prompt whose tokens are not added one by one.
  void skip_characters(int64_t n) { offset_ += n; }
  void add(TokenId token, float logprob, const std::vector<TopLogprob>& top);
  // The next token of an echoed prompt. Of a prompt that came as text, rest is what follows in it:
  // a control token that is spelled there is text too, one that the tokenizer has added is not.
  // What the token takes of rest is taken off.
  void add_prompt(const PromptEvent::Entry& entry, std::string_view& rest);
  // The object with what was added since the last call. The strings of all tokens joined are the
  // text, and each is a key of its own top_logprobs entry.
  std::string take_json();
  bool is_empty() const { return n_ == 0; }

 private:
  void add_text(const std::string& text,
                TokenId token,
                float logprob,
                const std::vector<TopLogprob>& top);

  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  int64_t offset_ = 0;  // characters of the text so far
  int n_ = 0;
  std::string tokens_;
  std::string logprobs_;
  std::string tops_;
  std::string offsets_;
};

int64_t count_characters(std::string_view valid_utf8);

}  // namespace millrace

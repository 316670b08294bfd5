#include "text/detokenizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace millrace {

Detokenizer::Detokenizer(const Tokenizer& tokenizer,
                         std::span<const TokenId> prompt_tail,
                         bool show_control)
    : tokenizer_(&tokenizer),
      strips_space_(tokenizer.strips_leading_space()),
      shows_control_(show_control) {
  // The longest incomplete character has 3 bytes, so the last 4 bytes of the prompt are enough.
  std::string tail;
  for (std::size_t i = prompt_tail.size(); i-- > 0 && tail.size() < 4;) {
    tail.insert(0, bytes_of(prompt_tail[i], show_control));
  }
  if (!tail.empty()) {
    strips_space_ = false;
  }
  n_prompt_bytes_ = incomplete_utf8_tail(tail);
  pending_ = tail.substr(tail.size() - n_prompt_bytes_);
}

std::string_view Detokenizer::bytes_of(TokenId id, bool shows_control) const {
  const bool is_shown = shows_control && tokenizer_->is_control(id);
  return is_shown ? tokenizer_->token_text(id) : tokenizer_->token_bytes(id);
}

std::string Detokenizer::push(TokenId id) {
  return push_bytes(bytes_of(id, shows_control_));
}

std::string Detokenizer::push_spelled(TokenId id) {
  return push_bytes(bytes_of(id, true));
}

std::string Detokenizer::push_bytes(std::string_view bytes) {
  if (strips_space_ && !bytes.empty()) {
    strips_space_ = false;
    if (bytes.starts_with(' ')) {
      bytes.remove_prefix(1);
    }
  }
  pending_ += bytes;
  return take(pending_.size() - incomplete_utf8_tail(pending_));
}

std::string Detokenizer::flush() {
  return take(pending_.size());
}

std::string Detokenizer::take(std::size_t n_bytes) {
  std::string text;
  const std::string taken = pending_.substr(0, n_bytes);
  pending_.erase(0, n_bytes);
  std::string_view rest = taken;
  while (!rest.empty()) {
    const Utf8Step step = decode_utf8(rest);
    const auto n = static_cast<std::size_t>(step.n_bytes);
    if (n > n_prompt_bytes_) {  // else it is a broken character of the prompt alone
      append_utf8(text, step.code_point);
    }
    n_prompt_bytes_ -= std::min(n_prompt_bytes_, n);
    rest.remove_prefix(n);
  }
  return text;
}

}  // namespace millrace

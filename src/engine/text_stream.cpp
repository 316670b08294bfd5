#include "engine/text_stream.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

constexpr size_t kPromptTail = 8;  // tokens; a character has at most four

std::vector<uint32_t> borders_of(const std::string& text) {
  std::vector<uint32_t> borders(text.size(), 0);
  uint32_t border = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[border] != text[i]) {
      border = borders[border - 1];
    }
    border += text[border] == text[i] ? 1 : 0;
    borders[i] = border;
  }
  return borders;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> strings)
    : strings_(std::move(strings)), states_(strings_.size(), 0) {
  for (const std::string& text : strings_) {
    borders_.push_back(borders_of(text));
  }
}

bool StopMatcher::push(char byte) {
  bool is_match = false;
  for (size_t i = 0; i < strings_.size(); ++i) {
    const std::string& text = strings_[i];
    uint32_t& state = states_[i];
    while (state > 0 && text[state] != byte) {
      state = borders_[i][state - 1];
    }
    state += text[state] == byte ? 1 : 0;
    if (state == text.size()) {
      matched_ = is_match && strings_[matched_].size() >= text.size() ? matched_ : i;
      is_match = true;
      state = borders_[i][state - 1];
    }
  }
  return is_match;
}

size_t StopMatcher::n_held() const {
  return states_.empty() ? 0 : *std::max_element(states_.begin(), states_.end());
}

TextStream::TextStream(const Tokenizer& tokenizer,
                       std::span<const TokenId> prompt,
                       std::vector<std::string> stop_strings)
    : detokenizer_(tokenizer, prompt.last(std::min(prompt.size(), kPromptTail))),
      matcher_(std::move(stop_strings)) {}

bool TextStream::push(TokenEvent event, bool can_stop) {
  event.text = detokenizer_.push(event.token);
  const int64_t begin = n_bytes_;
  n_bytes_ += static_cast<int64_t>(event.text.size());
  const std::string& text = held_.emplace_back(Held{std::move(event), begin}).event.text;
  if (can_stop && !matcher_.is_empty()) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (matcher_.push(text[i])) {
        cut(begin + static_cast<int64_t>(i) + 1 - static_cast<int64_t>(matcher_.matched().size()));
        has_matched_ = true;
        return true;
      }
    }
  }
  release_before(n_bytes_ - static_cast<int64_t>(matcher_.n_held()));
  return false;
}

// Tokens whose whole text lies before end can go.
void TextStream::release_before(int64_t end) {
  while (n_ready_ < held_.size()) {
    const Held& next = held_[n_ready_];
    if (next.begin + static_cast<int64_t>(next.event.text.size()) > end) {
      break;
    }
    ++n_ready_;
  }
}

// The answer ends at this byte: later tokens are dropped, the one across it is shortened.
void TextStream::cut(int64_t end) {
  while (held_.size() > n_ready_ && held_.back().begin >= end) {
    held_.pop_back();
  }
  if (held_.size() > n_ready_) {
    Held& last = held_.back();
    last.event.text.resize(std::min(last.event.text.size(), static_cast<size_t>(end - last.begin)));
  }
  n_ready_ = held_.size();
}

void TextStream::finish() {
  tail_ = detokenizer_.flush();
  n_ready_ = held_.size();
}

bool TextStream::pop(TokenEvent& event) {
  if (first_held_ == n_ready_) {
    // Nothing to pop: move what is held back to the front, the usual case is nothing at all.
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(first_held_));
    first_held_ = n_ready_ = 0;
    return false;
  }
  event = std::move(held_[first_held_++].event);
  ++n_popped_;
  return true;
}

}  // namespace millrace

#include "text/marked_text.h"

#include <algorithm>

namespace millrace {

MarkedText::MarkedText(std::string text, bool is_input) : text_(std::move(text)) {
  if (is_input) mark(0, text_.size());
}

void MarkedText::mark(size_t begin, size_t end) {
  if (begin >= end) return;
  if (!input_.empty() && input_.back().end == begin) {
    input_.back().end = static_cast<uint32_t>(end);
  } else {
    input_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  }
}

bool MarkedText::is_input_at(size_t byte) const {
  const auto after = std::upper_bound(
      input_.begin(), input_.end(), byte, [](size_t b, const Range& r) { return b < r.begin; });
  return after != input_.begin() && byte < std::prev(after)->end;
}

void MarkedText::append(std::string_view text, bool is_input) {
  const size_t begin = text_.size();
  text_.append(text);
  if (is_input) mark(begin, text_.size());
}

void MarkedText::append(const MarkedText& other) {
  if (this == &other) {
    append(MarkedText(other));
    return;
  }
  const size_t offset = text_.size();
  text_.append(other.text_);
  for (const Range& range : other.input_) mark(offset + range.begin, offset + range.end);
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  append(other.slice(begin, end));
}

void MarkedText::clear() {
  text_.clear();
  input_.clear();
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  end = std::min(end, text_.size());
  MarkedText part;
  if (begin >= end) return part;
  part.text_ = text_.substr(begin, end - begin);
  for (const Range& range : input_) {
    const size_t from = std::max<size_t>(range.begin, begin);
    const size_t to = std::min<size_t>(range.end, end);
    if (from < to) part.mark(from - begin, to - begin);
  }
  return part;
}

std::vector<TextPiece> MarkedText::pieces() const {
  std::vector<TextPiece> pieces;
  size_t at = 0;
  for (const Range& range : input_) {
    if (at < range.begin) pieces.push_back({text_.substr(at, range.begin - at), false});
    pieces.push_back({text_.substr(range.begin, range.end - range.begin), true});
    at = range.end;
  }
  if (at < text_.size()) pieces.push_back({text_.substr(at), false});
  return pieces;
}

}  // namespace millrace

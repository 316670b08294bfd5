#pragma once
// UTF-8 text whose byte ranges remember whether they came from a request. Value type, any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_piece.h"

namespace millrace {

class MarkedText {
 public:
  // Half open, in bytes. Ranges of one text are sorted, disjoint and do not touch.
  struct Range {
    uint32_t begin;
    uint32_t end;
  };

  MarkedText() = default;
  explicit MarkedText(std::string text, bool is_input = false);

  const std::string& text() const { return text_; }
  std::string_view view() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  bool has_input() const { return !input_.empty(); }
  const std::vector<Range>& input_ranges() const { return input_; }
  bool is_input_at(size_t byte) const;

  void append(std::string_view text, bool is_input);
  void append(const MarkedText& other);
  void append(const MarkedText& other, size_t begin, size_t end);  // bytes [begin, end) of other
  void clear();

  MarkedText slice(size_t begin, size_t end) const;  // bytes, clamped
  std::vector<TextPiece> pieces() const;             // neighbours differ in is_input, none empty

 private:
  void mark(size_t begin, size_t end);

  std::string text_;
  std::vector<Range> input_;
};

}  // namespace millrace

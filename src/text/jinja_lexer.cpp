#include "text/jinja_lexer.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/utf8.h"
#include "text/jinja_error.h"
#include "text/jinja_unicode.h"

namespace millrace {
namespace {

// \r\n and \r become \n, and one newline at the very end is dropped.
std::string normalise_newlines(std::string_view source, bool drop_last) {
  std::string out;
  out.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
      continue;
    }
    out += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (drop_last && !out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalise_newlines(source, true)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_data();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  struct Tag {
    size_t at;
    char kind;  // '{', '%' or '#'
  };

  [[noreturn]] void error(std::string_view what) const {
    template_fail("line {}: {}", line_, what);
  }

  std::string_view view() const { return source_; }
  bool looks_at(std::string_view text) const { return view().substr(at_, text.size()) == text; }

  void push(TokenKind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text), Value()});
  }

  void advance_to(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to),
                                         '\n'));
    at_ = to;
  }

  size_t skip_space(size_t at) const {
    size_t n = 0;
    while (at < source_.size() && is_space(code_point_at(source_, at, &n))) at += n;
    return at;
  }

  std::optional<Tag> next_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 >= source_.size()) break;
      const char kind = source_[at + 1];
      if (kind == '{' || kind == '%' || kind == '#') return Tag{at, kind};
    }
    return std::nullopt;
  }

  // Emits text before a tag; sign is the tag's '-', '+' or 0. lstrip_blocks removes blanks between
  // the line's start and a tag that is not a variable.
  void push_data(std::string_view text, char sign, bool is_variable) {
    if (sign == '-') {
      text = text.substr(0, strip_range(text, StripSide::kRight, nullptr).second);
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line_start = newline == text.npos ? 0 : newline + 1;
      if (line_start > 0 || is_line_start_) {
        const auto blank = strip_range(text.substr(line_start), StripSide::kLeft, nullptr);
        if (blank.first == text.size() - line_start) text = text.substr(0, line_start);
      }
    }
    if (!text.empty()) push(TokenKind::kData, std::string(text));
  }

  char sign_at(size_t at) const {
    const char c = at < source_.size() ? source_[at] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  void lex_data() {
    const std::optional<Tag> tag = next_tag(at_);
    if (!tag) {
      push(TokenKind::kData, source_.substr(at_));
      advance_to(source_.size());
      return;
    }
    const char sign = sign_at(tag->at + 2);
    push_data(view().substr(at_, tag->at - at_), sign, tag->kind == '{');
    advance_to(tag->at + 2 + (sign != '\0' ? 1 : 0));
    is_line_start_ = false;
    if (tag->kind == '#') return lex_comment();
    if (tag->kind == '%' && lex_raw()) return;
    lex_tag(tag->kind == '{');
  }

  // After "%}" or "#}" that starts at `at`: where the text goes on, given the sign before it.
  size_t after_end(size_t at, char sign) const {
    size_t after = at + 2;
    if (sign == '-') return skip_space(after);
    if (sign != '+' && after < source_.size() && source_[after] == '\n') ++after;
    return after;
  }

  void finish_tag(size_t after) {
    is_line_start_ = source_[after - 1] == '\n';
    advance_to(after);
  }

  void lex_comment() {
    if (at_ >= source_.size()) return;  // Jinja lets a comment or raw block open at the very end
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) error("missing end of comment tag");
    const char sign = end > at_ ? sign_at(end - 1) : '\0';
    finish_tag(after_end(end, sign));
  }

  // "{% raw %} ... {% endraw %}"; at_ is behind "{%" and its sign.
  bool lex_raw() {
    size_t at = skip_space(at_);
    if (view().substr(at, 3) != "raw") return false;
    at = skip_space(at + 3);
    const bool strips = sign_at(at) == '-';
    if (view().substr(at + (strips ? 1 : 0), 2) != "%}") return false;
    at += strips ? 3 : 2;
    if (strips) at = skip_space(at);
    is_line_start_ = source_[at - 1] == '\n';
    advance_to(at);
    if (at_ >= source_.size()) return true;
    for (size_t end = source_.find("{%", at_); end != std::string::npos;
         end = source_.find("{%", end + 1)) {
      const char sign = sign_at(end + 2);
      size_t name = skip_space(end + 2 + (sign != '\0' ? 1 : 0));
      if (view().substr(name, 6) != "endraw") continue;
      size_t close = skip_space(name + 6);
      const char end_sign = sign_at(close);
      if (end_sign != '\0') ++close;
      if (view().substr(close, 2) != "%}") continue;
      push_data(view().substr(at_, end - at_), sign, false);
      finish_tag(after_end(close, end_sign));
      return true;
    }
    error("missing end of raw directive");
  }

  void lex_tag(bool is_variable) {
    push(is_variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    brackets_.clear();
    const std::string_view end = is_variable ? "}}" : "%}";
    while (true) {
      advance_to(skip_space(at_));
      if (at_ >= source_.size()) return;
      if (brackets_.empty() && lex_tag_end(end, is_variable)) return;
      lex_token();
    }
  }

  bool lex_tag_end(std::string_view end, bool is_variable) {
    size_t at = at_;
    char sign = sign_at(at);
    if (sign == '+' && is_variable) sign = '\0';
    if (sign != '\0') ++at;
    if (view().substr(at, 2) != end) return false;
    push(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
    if (is_variable) {
      finish_tag(sign == '-' ? skip_space(at + 2) : at + 2);
    } else {
      finish_tag(after_end(at, sign));
    }
    return true;
  }

  void lex_token() {
    const char c = source_[at_];
    if (is_ascii_digit(c)) return lex_number();
    if (c == '"' || c == '\'') return lex_string(c);
    size_t n = 0;
    if (is_word(code_point_at(source_, at_, &n))) return lex_name();
    lex_operator();
  }

  void lex_name() {
    size_t end = at_;
    size_t n = 0;
    while (end < source_.size() && is_word(code_point_at(source_, end, &n))) end += n;
    push(TokenKind::kName, source_.substr(at_, end - at_));
    at_ = end;
  }

  // digits, each with at most one '_' before it
  size_t skip_digits(size_t at) const {
    while (at < source_.size() &&
           (is_ascii_digit(source_[at]) ||
            (source_[at] == '_' && at + 1 < source_.size() && is_ascii_digit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  bool is_digit_at(size_t at) const { return at < source_.size() && is_ascii_digit(source_[at]); }

  void lex_number() {
    size_t end = skip_digits(at_);
    bool is_float = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot) {
      if (end < source_.size() && source_[end] == '.' && is_digit_at(end + 1)) {
        end = skip_digits(end + 1);
        is_float = true;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const size_t digits = end + 1 + (sign_at(end + 1) != '\0' ? 1 : 0);
        if (is_digit_at(digits)) {
          end = skip_digits(digits);
          is_float = true;
        }
      }
    }
    if (is_float) return push_float(end);
    lex_integer();
  }

  std::string without_underscores(size_t begin, size_t end) const {
    std::string text = source_.substr(begin, end - begin);
    std::erase(text, '_');
    return text;
  }

  void push_float(size_t end) {
    const std::string text = without_underscores(at_, end);
    double value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec == std::errc::result_out_of_range) {
      value = text.find("e-") != text.npos ? 0 : std::numeric_limits<double>::infinity();
    }
    tokens_.push_back({TokenKind::kNumber, line_, "", Value(value)});
    at_ = end;
  }

  void lex_integer() {
    int base = 10;
    size_t begin = at_;
    size_t end = at_;
    const char prefix =
        at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
    if (source_[at_] == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
      const int prefixed = prefix == 'x' ? 16 : prefix == 'o' ? 8 : 2;
      const size_t stop = skip_based_digits(at_ + 2, prefixed);
      if (stop > at_ + 2) {
        base = prefixed;
        begin = at_ + 2;
        end = stop;
      }
    }
    if (base == 10) {
      end = skip_digits(at_);
      if (source_[at_] == '0') {  // "0", "00": a zero is followed by zeros only
        end = at_;
        while (end < source_.size() &&
               (source_[end] == '0' ||
                (source_[end] == '_' && end + 1 < source_.size() && source_[end + 1] == '0'))) {
          ++end;
        }
      }
    }
    const std::string text = without_underscores(begin, end);
    int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value, base).ec != std::errc()) {
      error("integer does not fit 64 bits");
    }
    tokens_.push_back({TokenKind::kNumber, line_, "", Value(value)});
    at_ = end;
  }

  size_t skip_based_digits(size_t at, int base) const {
    const auto is_based_digit = [&](size_t i) {
      if (i >= source_.size()) return false;
      const char c = source_[i];
      if (base == 16 && ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')) return true;
      return c >= '0' && c < '0' + std::min(base, 10);
    };
    while (is_based_digit(at) ||
           (at < source_.size() && source_[at] == '_' && is_based_digit(at + 1))) {
      ++at;
    }
    return at;
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) error("string without end");
    push(TokenKind::kString, unescape(view().substr(at_ + 1, end - at_ - 1)));
    advance_to(end + 1);
  }

  // Python's escapes; unknown ones stay as they are.
  std::string unescape(std::string_view text) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '\\') {
        out += text[at++];
        continue;
      }
      static constexpr std::string_view kFrom = "\\'\"abfnrtv";
      static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
      const char c = text[at + 1];
      if (const size_t simple = kFrom.find(c); simple != kFrom.npos) {
        out += kTo[simple];
        at += 2;
      } else if (c == '\n') {
        at += 2;
      } else if (c >= '0' && c <= '7') {
        at += 1;
        uint32_t code = 0;
        for (int n = 0; n < 3 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++n) {
          code = code * 8 + static_cast<uint32_t>(text[at++] - '0');
        }
        append_utf8(out, code);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_utf8(out, hex_code(text, at + 2, n_digits));
        at += 2 + n_digits;
      } else if (c == 'N') {
        error("character names in strings are not supported");
      } else {
        out += '\\';
        at += 1;
      }
    }
    return out;
  }

  char32_t hex_code(std::string_view text, size_t at, size_t n_digits) const {
    uint32_t code = 0;
    const char* begin = text.data() + at;
    const bool fits = at + n_digits <= text.size();
    if (!fits || std::from_chars(begin, begin + n_digits, code, 16).ptr != begin + n_digits) {
      error("truncated escape sequence in a string");
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      error("escape sequence in a string is not a character");
    }
    return code;
  }

  void lex_operator() {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view op : kTwo) {
      if (!looks_at(op)) continue;
      push(TokenKind::kOperator, std::string(op));
      at_ += 2;
      return;
    }
    const char c = source_[at_];
    if (kOne.find(c) == kOne.npos) error(fmt::format("unexpected character '{}'", c));
    balance(c);
    push(TokenKind::kOperator, std::string(1, c));
    ++at_;
  }

  void balance(char c) {
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c == '{') brackets_ += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets_.empty()) error(fmt::format("unexpected '{}'", c));
    if (brackets_.back() != c)
      error(fmt::format("unexpected '{}', expected '{}'", c, brackets_.back()));
    brackets_.pop_back();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;
  std::string brackets_;  // what closes the open ones, innermost last
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex_template(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace millrace

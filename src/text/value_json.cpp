// JSON as Python's json module reads and writes it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "base/utf8.h"
#include "text/jinja_unicode.h"
#include "text/strict_json.h"
#include "text/value.h"

namespace millrace {
namespace {

class JsonReader {
 public:
  // What Python's json module reads.
  explicit JsonReader(std::string_view text) : text_(text) {}
  // RFC 8259 and no more.
  JsonReader(std::string_view text, const StrictJsonOptions& options)
      : text_(text), is_strict_(true), options_(options) {}

  Result<Value> read_document() {
    Result<Value> value = read_value(0);
    if (!value) return value;
    skip_space();
    if (at_ != text_.size()) return error("nothing more");
    return value;
  }

 private:
  tl::unexpected<Error> error(std::string_view expected) const {
    return fail(ErrorCode::kInvalidArgument,
                "[json] offset {}: expected {}, found {}",
                at_,
                expected,
                at_ < text_.size()
                    ? fmt::format("byte 0x{:02x}", static_cast<unsigned char>(text_[at_]))
                    : std::string("the end"));
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Result<Value> read_value(int depth) {
    if (depth > Value::kMaxDepth) {
      return fail(ErrorCode::kUnsupported,
                  "[json] offset {}: nested more than {} deep",
                  at_,
                  Value::kMaxDepth);
    }
    skip_space();
    if (std::vector<TokenId> ids = read_ids(); !ids.empty()) {
      return Value(std::make_shared<TokenIdsObject>(std::move(ids)));
    }
    if (++n_values_ > options_.max_values) {
      return fail(ErrorCode::kResourceExhausted,
                  "[json] offset {}: more than {} values",
                  at_,
                  options_.max_values);
    }
    if (take('{')) return read_object(depth);
    if (take('[')) return read_array(depth);
    if (take('"')) {
      Result<std::string> text = read_string();
      if (!text) return propagate(text);
      return make_string(std::move(*text));
    }
    if (take_word("true")) return Value(true);
    if (take_word("false")) return Value(false);
    if (take_word("null")) return Value();
    if (!is_strict_) {
      if (take_word("NaN")) return Value(std::numeric_limits<double>::quiet_NaN());
      if (take_word("Infinity")) return Value(std::numeric_limits<double>::infinity());
      if (take_word("-Infinity")) return Value(-std::numeric_limits<double>::infinity());
    }
    return read_number();
  }

  Result<Value> read_object(int depth) {
    Dict dict;
    skip_space();
    if (take('}')) return Value(std::move(dict));
    do {
      skip_space();
      if (!take('"')) return error("a key in quotes");
      Result<std::string> key = read_string();
      if (!key) return propagate(key);
      skip_space();
      if (!take(':')) return error("':'");
      if (depth == 0) is_in_id_field_ = is_id_field(*key);
      Result<Value> value = read_value(depth + 1);
      if (!value) return value;
      dict.set(make_string(std::move(*key)), std::move(*value));
      skip_space();
    } while (take(','));
    if (!take('}')) return error("',' or '}'");
    return Value(std::move(dict));
  }

  Result<Value> read_array(int depth) {
    std::vector<Value> items;
    skip_space();
    if (take(']')) return Value::list(std::move(items));
    do {
      Result<Value> value = read_value(depth + 1);
      if (!value) return value;
      items.push_back(std::move(*value));
      skip_space();
    } while (take(','));
    if (!take(']')) return error("',' or ']'");
    return Value::list(std::move(items));
  }

  // The rest of an array of ids in a field of ids, else nothing, and nothing is read.
  std::vector<TokenId> read_ids() {
    if (!is_in_id_field_ || !text_.substr(at_).starts_with('[')) return {};
    const auto is_of_list = [](char c) {
      return is_ascii_digit(c) || c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
    };
    const auto first = text_.begin() + static_cast<ptrdiff_t>(at_) + 1;
    const auto last = std::find_if_not(first, text_.end(), is_of_list);
    if (last == text_.end() || *last != ']') return {};
    const size_t begin = at_++;
    std::vector<TokenId> ids;
    ids.reserve(1 + static_cast<size_t>(std::count(first, last, ',')));
    do {
      skip_space();
      const size_t number = at_;
      skip_digits();
      TokenId id = 0;
      const bool has_leading_zero = text_.substr(number, 1) == "0" && at_ > number + 1;
      const auto parsed = std::from_chars(text_.data() + number, text_.data() + at_, id);
      if (has_leading_zero || parsed.ec != std::errc()) {
        at_ = begin;
        return {};
      }
      ids.push_back(id);
      skip_space();
    } while (take(','));
    if (take(']')) return ids;
    at_ = begin;
    return {};
  }

  bool is_id_field(const std::string& key) const {
    return std::find(options_.id_fields.begin(), options_.id_fields.end(), key) !=
           options_.id_fields.end();
  }

  Value make_string(std::string text) {
    if (!is_strict_) return Value(std::move(text));
    if (text.size() > kRecurringBytes) return Value(MarkedText(std::move(text), true));
    Value& known = recurring_[std::hash<std::string>{}(text) % recurring_.size()];
    if (!known.is_string() || known.as_string() != text) {
      known = Value(MarkedText(std::move(text), true));
    }
    return known;
  }

  Result<Value> read_number() {
    const size_t begin = at_;
    take('-');
    if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9') return error("a value");
    if (!take('0')) skip_digits();
    bool is_integer = true;
    if (at_ + 1 < text_.size() && text_[at_] == '.' && is_ascii_digit(text_[at_ + 1])) {
      ++at_;
      skip_digits();
      is_integer = false;
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (!take('+')) take('-');
      if (at_ >= text_.size() || !is_ascii_digit(text_[at_])) return error("an exponent");
      skip_digits();
      is_integer = false;
    }
    const std::string_view number = text_.substr(begin, at_ - begin);
    if (is_integer) {
      int64_t value = 0;
      if (std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc()) {
        return Value(value);
      }
    }
    double value = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
    // Out of range: Python reads too large as infinity and too small as zero.
    if (parsed.ec == std::errc::result_out_of_range) {
      const bool is_small = number.find("e-") != number.npos || number.find("E-") != number.npos;
      if (is_strict_ && !is_small) {
        return fail(ErrorCode::kUnsupported,
                    "[json] offset {}: the number is beyond the range of a double",
                    begin);
      }
      value = is_small ? 0.0 : std::numeric_limits<double>::infinity();
      if (number[0] == '-') value = -value;
    }
    return Value(value);
  }

  static bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
  void skip_digits() {
    while (at_ < text_.size() && is_ascii_digit(text_[at_])) ++at_;
  }

  // After the opening quote.
  Result<std::string> read_string() {
    std::string out;
    out.reserve(string_end() - at_);  // growing would take twice the memory
    while (true) {
      size_t end = at_;
      while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
             static_cast<unsigned char>(text_[end]) >= 0x20) {
        ++end;
      }
      const std::string_view plain = text_.substr(at_, end - at_);
      if (!is_valid_utf8(plain)) return error("a string in UTF-8");
      out += plain;
      at_ = end;
      if (take('"')) return out;
      if (!take('\\')) return error("'\"' at the end of a string");
      if (!read_escape(out)) return error("an escape sequence");
    }
  }

  // Where the closing quote is, or the text ends.
  size_t string_end() const {
    size_t end = at_;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    return std::min(end, text_.size());
  }

  bool read_escape(std::string& out) {
    if (at_ >= text_.size()) return false;
    static constexpr std::string_view kFrom = "\"\\/bfnrt";
    static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const char c = text_[at_];
    if (const size_t simple = kFrom.find(c); simple != kFrom.npos) {
      ++at_;
      out += kTo[simple];
      return true;
    }
    uint32_t unit = 0;
    if (!take('u') || !read_hex(unit)) return false;
    if (unit >= 0xD800 && unit < 0xDC00) {
      const size_t after_high = at_;
      uint32_t low = 0;
      if (take('\\') && take('u') && read_hex(low) && low >= 0xDC00 && low < 0xE000) {
        append_utf8(out, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
        return true;
      }
      at_ = after_high;
    }
    append_utf8(out, unit >= 0xD800 && unit < 0xE000 ? 0xFFFD : unit);
    return true;
  }

  bool read_hex(uint32_t& unit) {
    if (text_.size() - at_ < 4) return false;
    const char* begin = text_.data() + at_;
    const auto parsed = std::from_chars(begin, begin + 4, unit, 16);
    if (parsed.ec != std::errc() || parsed.ptr != begin + 4) return false;
    at_ += 4;
    return true;
  }

  static constexpr size_t kRecurringBytes = 24;

  std::string_view text_;
  bool is_strict_ = false;
  StrictJsonOptions options_;
  size_t at_ = 0;
  size_t n_values_ = 0;
  bool is_in_id_field_ = false;
  std::array<Value, 64> recurring_;  // short strings seen lately
};

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style)
      : style_(style),
        indent_(style.indent_text.empty() ? std::string(std::max(style.indent, 0), ' ')
                                          : style.indent_text),
        is_indented_(style.indent >= 0 || !style.indent_text.empty()) {}

  // False when something cannot be written; error() says what.
  bool write(const Value& value, int depth) {
    switch (value.kind()) {
      case ValueKind::kNone:
        out_.append("null", false);
        return true;
      case ValueKind::kBool:
        out_.append(value.as_bool() ? "true" : "false", false);
        return true;
      case ValueKind::kInt:
        out_.append(std::to_string(value.as_int()), false);
        return true;
      case ValueKind::kDouble:
        out_.append(number(value.as_double()), false);
        return true;
      case ValueKind::kString:
        write_string(value.as_text());
        return true;
      case ValueKind::kList:
      case ValueKind::kTuple:
        return write_list(value.items(), depth);
      case ValueKind::kDict:
        return write_dict(value.as_dict(), depth);
      default:
        error_ = fmt::format("Object of type {} is not JSON serializable", type_name(value));
        return false;
    }
  }

  MarkedText take() { return std::move(out_); }
  const std::string& error() const { return error_; }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return format_double(value);
  }

  void new_line(int depth) {
    if (!is_indented_) return;
    std::string text = "\n";
    for (int i = 0; i < depth; ++i) text += indent_;
    out_.append(text, false);
  }

  bool write_list(std::span<const Value> items, int depth) {
    out_.append("[", false);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator, false);
      new_line(depth + 1);
      if (!write(items[i], depth + 1)) return false;
    }
    if (!items.empty()) new_line(depth);
    out_.append("]", false);
    return true;
  }

  bool write_dict(const Dict& dict, int depth) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict) entries.push_back(&entry);
    if (style_.sort_keys && !sort(entries)) return false;
    out_.append("{", false);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator, false);
      new_line(depth + 1);
      if (!write_key(entries[i]->first)) return false;
      out_.append(style_.key_separator, false);
      if (!write(entries[i]->second, depth + 1)) return false;
    }
    if (!entries.empty()) new_line(depth);
    out_.append("}", false);
    return true;
  }

  bool sort(std::vector<const Dict::Entry*>& entries) {
    const bool all_strings = std::all_of(
        entries.begin(), entries.end(), [](const auto* e) { return e->first.is_string(); });
    if (!all_strings && entries.size() > 1) {
      error_ = "sort_keys needs keys that are all strings";
      return false;
    }
    // UTF-8 sorts like code points.
    std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
      return a->first.as_string() < b->first.as_string();
    });
    return true;
  }

  bool write_key(const Value& key) {
    if (key.is_string()) {
      write_string(key.as_text());
      return true;
    }
    std::string text;
    if (key.is_none()) {
      text = "null";
    } else if (key.is_bool()) {
      text = key.as_bool() ? "true" : "false";
    } else if (key.is_int()) {
      text = std::to_string(key.as_int());
    } else if (key.is_double()) {
      text = number(key.as_double());
    } else {
      error_ = fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key));
      return false;
    }
    out_.append('"' + text + '"', false);
    return true;
  }

  void write_string(const MarkedText& text) {
    out_.append("\"", false);
    if (text.input_ranges().size() == 1 && text.input_ranges()[0].begin == 0 &&
        text.input_ranges()[0].end == text.size()) {
      write_characters(text.view(), true);
    } else {
      for (const TextPiece& piece : text.pieces()) write_characters(piece.text, piece.is_input);
    }
    out_.append("\"", false);
  }

  void write_characters(std::string_view text, bool is_input) {
    size_t begin = 0;
    for (size_t at = 0, n = 1; at < text.size(); at += n) {
      const auto byte = static_cast<unsigned char>(text[at]);
      n = 1;
      if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x7F || !style_.ensure_ascii)) {
        continue;
      }
      out_.append(text.substr(begin, at - begin), is_input);
      out_.append(escape(code_point_at(text, at, &n)), is_input);
      begin = at + n;
    }
    out_.append(text.substr(begin), is_input);
  }

  static std::string escape(char32_t c) {
    static constexpr std::string_view kFrom = "\"\\\b\f\n\r\t";
    static constexpr std::string_view kTo = "\"\\bfnrt";
    if (c < 0x80) {
      if (const size_t simple = kFrom.find(static_cast<char>(c)); simple != kFrom.npos) {
        return std::string("\\") + kTo[simple];
      }
    }
    if (c < 0x10000) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    const uint32_t offset = static_cast<uint32_t>(c) - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
  }

  const JsonStyle& style_;
  std::string indent_;
  bool is_indented_;
  MarkedText out_;
  std::string error_;
};

}  // namespace

Result<MarkedText> dump_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  if (!writer.write(value, 0)) return fail(ErrorCode::kInvalidArgument, "{}", writer.error());
  MarkedText text = writer.take();
  // See to_repr: what a request sent comes out as input as a whole.
  return value.is_frozen() ? MarkedText(text.text(), true) : text;
}

Result<Value> parse_json(std::string_view document) {
  return JsonReader(document).read_document();
}

Result<Value> parse_strict_json(std::string_view document, const StrictJsonOptions& options) {
  return JsonReader(document, options).read_document();
}

}  // namespace millrace

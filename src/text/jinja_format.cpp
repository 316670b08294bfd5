#include "text/jinja_format.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "text/jinja_access.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace millrace {
namespace {

constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxPrecision = 1000;

// [[fill]align][sign][#][0][width][,][.precision][type], for both kinds of formatting
struct Specification {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';
  bool is_alternate = false;
  char grouping = '\0';  // , or _
  int width = 0;
  int precision = -1;
  char type = '\0';
};

int read_number(std::string_view text, size_t* at, int limit) {
  int number = 0;
  while (*at < text.size() && text[*at] >= '0' && text[*at] <= '9') {
    number = number * 10 + (text[*at] - '0');
    if (number > limit) template_fail("format: {} is too large", number);
    ++*at;
  }
  return number;
}

std::string group_digits(const std::string& digits, char separator, size_t group) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// "+", "-", " " or "" before a magnitude
std::string sign_text(bool is_negative, char sign) {
  if (is_negative) return "-";
  return sign == '-' ? "" : std::string(1, sign);
}

std::string float_digits(double magnitude, const Specification& spec) {
  const char type = spec.type == '\0' ? 'g' : spec.type;
  if (std::isnan(magnitude)) return type == 'E' || type == 'F' || type == 'G' ? "NAN" : "nan";
  if (std::isinf(magnitude)) return type == 'E' || type == 'F' || type == 'G' ? "INF" : "inf";
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  const char conversion = type == '%' ? 'f' : type;
  const std::string pattern =
      fmt::format("{{:{}.{}{}}}", spec.is_alternate ? "#" : "", precision, conversion);
  return fmt::format(fmt::runtime(pattern), type == '%' ? magnitude * 100 : magnitude) +
         (type == '%' ? "%" : "");
}

std::string float_magnitude(double magnitude, const Specification& spec) {
  std::string digits;
  if (spec.type == '\0' && spec.precision < 0) {
    digits = format_double(magnitude);
  } else if (spec.type == '\0') {
    digits = float_digits(magnitude, spec);
    if (digits.find_first_of(".eEn") == std::string::npos) digits += ".0";
  } else {
    digits = float_digits(magnitude, spec);
  }
  if (spec.grouping == '\0') return digits;
  const size_t whole = digits.find_first_not_of("0123456789");
  const size_t end = whole == std::string::npos ? digits.size() : whole;
  return group_digits(digits.substr(0, end), spec.grouping, 3) + digits.substr(end);
}

std::string integer_magnitude(uint64_t magnitude, const Specification& spec) {
  std::string prefix;
  std::string digits;
  size_t group = 3;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      prefix = "0x";
      group = 4;
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      prefix = "0X";
      group = 4;
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      prefix = "0o";
      group = 4;
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      prefix = "0b";
      group = 4;
      break;
    default:
      digits = std::to_string(magnitude);
  }
  if (spec.grouping != '\0') digits = group_digits(digits, spec.grouping, group);
  return (spec.is_alternate ? prefix : "") + digits;
}

MarkedText aligned(Runtime& runtime,
                   const MarkedText& text,
                   const Specification& spec,
                   char align) {
  const auto length = static_cast<int64_t>(count_code_points(text.view()));
  if (spec.width <= length) return text;
  if (align != '^') return pad_text(runtime, text, spec.width, align, spec.fill);
  const int64_t left = (spec.width - length) / 2;
  return pad_text(
      runtime, pad_text(runtime, text, length + left, '>', spec.fill), spec.width, '<', spec.fill);
}

MarkedText aligned_number(Runtime& runtime,
                          const std::string& sign,
                          const std::string& magnitude,
                          const Specification& spec) {
  if (spec.align == '=') {
    Specification inner = spec;
    inner.width = spec.width - static_cast<int>(sign.size());
    MarkedText out(sign);
    out.append(aligned(runtime, MarkedText(magnitude), inner, '>'));
    return out;
  }
  return aligned(
      runtime, MarkedText(sign + magnitude), spec, spec.align == '\0' ? '>' : spec.align);
}

MarkedText format_number(Runtime& runtime, const Value& value, const Specification& spec) {
  static constexpr std::string_view kFloatTypes = "eEfFgG%";
  const bool as_float = value.is_double() || kFloatTypes.find(spec.type) != kFloatTypes.npos;
  if (as_float) {
    const double number = *as_number(value);
    return aligned_number(runtime,
                          sign_text(std::signbit(number) && !std::isnan(number), spec.sign),
                          float_magnitude(std::fabs(number), spec),
                          spec);
  }
  const int64_t number = to_integer(value, "format");
  const uint64_t magnitude =
      number < 0 ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
  return aligned_number(
      runtime, sign_text(number < 0, spec.sign), integer_magnitude(magnitude, spec), spec);
}

Specification parse_specification(std::string_view text) {
  static constexpr std::string_view kAligns = "<>^=";
  Specification spec;
  size_t at = 0;
  size_t n = 0;
  if (!text.empty()) code_point_at(text, 0, &n);
  if (n > 0 && n < text.size() && kAligns.find(text[n]) != kAligns.npos) {
    spec.fill = text.substr(0, n);
    spec.align = text[n];
    at = n + 1;
  } else if (!text.empty() && kAligns.find(text[0]) != kAligns.npos) {
    spec.align = text[at++];
  }
  const auto take = [&](char c) {
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  };
  for (const char sign : {'+', '-', ' '}) {
    if (take(sign)) spec.sign = sign;
  }
  spec.is_alternate = take('#');
  if (take('0') && spec.align == '\0') {
    spec.align = '=';
    spec.fill = "0";
  }
  spec.width = read_number(text, &at, kMaxWidth);
  if (take(',')) spec.grouping = ',';
  if (take('_')) spec.grouping = '_';
  if (take('.')) {
    const size_t digits = at;
    spec.precision = read_number(text, &at, kMaxPrecision);
    if (at == digits) template_fail("format: the precision is missing");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) template_fail("format: '{}' is not a format specification", text);
  return spec;
}

MarkedText truncated(const MarkedText& text, int precision) {
  if (precision < 0) return text;
  return text.slice(0, byte_offset(text.view(), static_cast<size_t>(precision)));
}

// One "%..." of an old style format.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const MarkedText& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {}

  MarkedText run() {
    const std::string_view text = format_.view();
    size_t at = 0;
    while (at < text.size()) {
      const size_t percent = std::min(text.find('%', at), text.size());
      out_.append(format_, at, percent);
      if (percent == text.size()) break;
      at = percent + 1;
      conversion(text, &at);
    }
    const bool takes_all = values_.is_tuple() && n_taken_ != values_.items().size();
    const bool takes_one = !values_.is_tuple() && !values_.is_dict() && n_taken_ == 0;
    const bool is_ignored = values_.is_list() || values_.is_undefined();
    if (takes_all || (takes_one && !is_ignored && !used_key_)) {
      template_fail("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  Value next() {
    if (values_.is_tuple()) {
      if (n_taken_ >= values_.items().size())
        template_fail("not enough arguments for format string");
      return values_.items()[n_taken_++];
    }
    if (n_taken_++ > 0) template_fail("not enough arguments for format string");
    return values_;
  }

  void conversion(std::string_view text, size_t* at) {
    Specification spec;
    spec.fill = " ";
    std::optional<Value> keyed;
    if (*at < text.size() && text[*at] == '(') {
      const size_t close = text.find(')', *at);
      if (close == text.npos) template_fail("incomplete format key");
      if (!values_.is_dict()) template_fail("format requires a mapping");
      const std::string_view key = text.substr(*at + 1, close - *at - 1);
      const Value* found = values_.as_dict().find(key);
      if (found == nullptr) template_fail("the key '{}' of the format is missing", key);
      keyed = *found;
      used_key_ = true;
      *at = close + 1;
    }
    bool is_left = false;
    bool is_zero = false;
    for (bool is_flag = true; is_flag && *at < text.size(); *at += is_flag ? 1 : 0) {
      switch (text[*at]) {
        case '-':
          is_left = true;
          break;
        case '0':
          is_zero = true;
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          if (spec.sign != '+') spec.sign = ' ';
          break;
        case '#':
          spec.is_alternate = true;
          break;
        default:
          is_flag = false;
      }
    }
    spec.width = read_number_or_star(text, at, kMaxWidth);
    if (spec.width < 0) is_left = true;
    spec.width = std::abs(spec.width);
    if (*at < text.size() && text[*at] == '.') {
      ++*at;
      spec.precision = std::max(0, read_number_or_star(text, at, kMaxPrecision));
    }
    while (*at < text.size() && (text[*at] == 'l' || text[*at] == 'h' || text[*at] == 'L')) ++*at;
    if (*at >= text.size()) template_fail("incomplete format");
    spec.type = text[(*at)++];
    spec.align = is_left ? '<' : '>';
    if (spec.type == '%') {
      out_.append("%", false);
      return;
    }
    convert(keyed ? *keyed : next(), spec, is_zero && !is_left);
  }

  int read_number_or_star(std::string_view text, size_t* at, int limit) {
    if (*at >= text.size() || text[*at] != '*') return read_number(text, at, limit);
    ++*at;
    const int64_t value = to_integer(next(), "*");
    if (value > limit || value < -limit) template_fail("format: {} is too large", value);
    return static_cast<int>(value);
  }

  void convert(const Value& value, Specification spec, bool pads_zero) {
    static constexpr std::string_view kIntegers = "diuxXo";
    static constexpr std::string_view kFloats = "eEfFgG";
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
      runtime_.charge_bytes(value.weight());
      const MarkedText text = spec.type == 's' ? to_text(value) : to_repr(value);
      out_.append(aligned(runtime_, truncated(text, spec.precision), spec, spec.align));
      return;
    }
    if (spec.type == 'c') return character(value, spec);
    const bool is_integer = kIntegers.find(spec.type) != kIntegers.npos;
    if (!is_integer && kFloats.find(spec.type) == kFloats.npos) {
      template_fail("unsupported format character '{}'", spec.type);
    }
    const std::optional<double> number = as_number(value);
    require_defined(value);
    if (!number) template_fail("%{} needs a number, not {}", spec.type, type_name(value));
    if (pads_zero) {
      spec.align = '=';
      spec.fill = "0";
    }
    Value converted = value;
    if (is_integer) {
      if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
      if (value.is_double()) {
        if (spec.type != 'd') template_fail("%{} needs an integer, not float", spec.type);
        if (!(std::fabs(*number) < 0x1p63)) template_fail("integer result does not fit 64 bits");
        converted = static_cast<int64_t>(*number);
      }
      const int digits = spec.precision;
      spec.precision = -1;
      if (digits >= 0) return padded_integer(converted, spec, digits);
    }
    out_.append(format_number(runtime_, converted, spec));
  }

  // "%.5d": at least so many digits
  void padded_integer(const Value& value, const Specification& spec, int digits) {
    Specification inner = spec;
    inner.width = digits + (to_integer(value, "%d") < 0 || spec.sign != '-' ? 1 : 0);
    inner.align = '=';
    inner.fill = "0";
    out_.append(aligned(runtime_,
                        format_number(runtime_, value, inner),
                        spec,
                        spec.align == '=' ? '>' : spec.align));
  }

  void character(const Value& value, const Specification& spec) {
    MarkedText text;
    if (value.is_string() && count_code_points(value.as_string()) == 1) {
      text = value.as_text();
    } else {
      const int64_t code = to_integer(value, "%c");
      if (code < 0 || code > 0x10FFFF) template_fail("%c: {} is not a character", code);
      std::string bytes;
      append_utf8(bytes, static_cast<char32_t>(code));
      text = MarkedText(std::move(bytes));
    }
    out_.append(aligned(runtime_, text, spec, spec.align));
  }

  Runtime& runtime_;
  const MarkedText& format_;
  const Value& values_;
  MarkedText out_;
  size_t n_taken_ = 0;
  bool used_key_ = false;
};

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  MarkedText run(const MarkedText& format, int depth) {
    if (depth > 2) template_fail("format: too deeply nested");
    const std::string_view text = format.view();
    MarkedText out;
    size_t at = 0;
    while (at < text.size()) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append(format, at, brace);
      if (brace == text.size()) break;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out.append(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (text[brace] == '}') template_fail("format: single '}}'");
      const size_t close = matching_brace(text, brace);
      out.append(field(format.slice(brace + 1, close), depth));
      at = close + 1;
    }
    return out;
  }

 private:
  static size_t matching_brace(std::string_view text, size_t open) {
    int level = 0;
    for (size_t at = open; at < text.size(); ++at) {
      if (text[at] == '{') ++level;
      if (text[at] == '}' && --level == 0) return at;
    }
    template_fail("format: expected '}}' before the end");
  }

  MarkedText field(const MarkedText& text, int depth) {
    runtime_.step();
    const size_t colon = std::min(text.text().find(':'), text.size());
    std::string name = text.text().substr(0, colon);
    char conversion = 's';
    bool has_conversion = false;
    if (const size_t mark = name.find('!'); mark != std::string::npos) {
      if (mark + 2 != name.size()) template_fail("format: bad conversion");
      conversion = name[mark + 1];
      has_conversion = true;
      name.resize(mark);
    }
    Value value = lookup(name);
    const MarkedText spec = run(text.slice(colon + 1, text.size()), depth + 1);
    runtime_.charge_bytes(value.weight());
    if (has_conversion) {
      if (conversion != 's' && conversion != 'r') template_fail("format: bad conversion");
      value = Value(conversion == 'r' ? to_repr(value) : to_text(value));
    }
    return format_value(runtime_, value, spec.view());
  }

  Value lookup(const std::string& name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, at));
    while (at < name.size()) {
      const bool is_item = name[at] == '[';
      const size_t end =
          is_item ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
      if (end == std::string::npos) template_fail("format: missing ']'");
      const std::string part = name.substr(at + 1, end - at - 1);
      const bool is_number = is_item && !part.empty() && part.size() < 10 &&
                             part.find_first_not_of("0123456789") == std::string::npos;
      value = is_number ? get_item(runtime_, value, Value(int64_t{std::atoi(part.c_str())}))
              : is_item ? get_item(runtime_, value, Value(part))
                        : get_attribute(runtime_, value, part, Value::undefined(part));
      at = is_item ? end + 1 : end;
    }
    return value;
  }

  Value first(const std::string& name) {
    const bool is_number = name.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number) {
      const Value* found = arguments_.get(arguments_.positional.size(), name);
      if (found == nullptr) template_fail("format: no argument named '{}'", name);
      return *found;
    }
    if (name.size() > 6) template_fail("format: no argument {}", name);
    const size_t index =
        name.empty() ? n_automatic_++ : static_cast<size_t>(std::atoi(name.c_str()));
    if (index >= arguments_.positional.size()) template_fail("format: no argument {}", index);
    return arguments_.positional[index];
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  size_t n_automatic_ = 0;
};

}  // namespace

Value percent_format(Runtime& runtime, const Value& format, const Value& values) {
  runtime.charge_bytes(format.as_text().size());
  return runtime.text(PercentFormatter(runtime, format.as_text(), values).run());
}

Value brace_format(Runtime& runtime, const MarkedText& format, const Arguments& arguments) {
  runtime.charge_bytes(format.size());
  return runtime.text(BraceFormatter(runtime, arguments).run(format, 0));
}

MarkedText format_value(Runtime& runtime, const Value& value, std::string_view specification) {
  if (specification.empty()) return to_text(value);
  const Specification spec = parse_specification(specification);
  static constexpr std::string_view kTypes = "eEfFgG%dxXob";
  if (as_number(value) && (spec.type == '\0' || kTypes.find(spec.type) != kTypes.npos)) {
    if (!value.is_double() && spec.precision >= 0 && spec.type == '\0') {
      template_fail("format: precision is not allowed for integers");
    }
    return format_number(runtime, value, spec);
  }
  if (!value.is_string()) {
    template_fail("format: {} has no format '{}'", type_name(value), specification);
  }
  if (spec.type != '\0' && spec.type != 's') template_fail("format: bad type for a string");
  if (spec.align == '=' || spec.sign != '-') template_fail("format: bad flags for a string");
  return aligned(runtime,
                 truncated(to_text(value), spec.precision),
                 spec,
                 spec.align == '\0' ? '<' : spec.align);
}

}  // namespace millrace

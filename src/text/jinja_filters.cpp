// Filters on texts and numbers.
#include "text/jinja_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "text/jinja_access.h"
#include "text/jinja_format.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace millrace {
namespace {

// soft_str: markup stays markup.
MarkedText text_of(Runtime& runtime, const Value& value) {
  runtime.charge_bytes(value.weight());
  return to_text(value);
}

Value like(const Value& original, MarkedText text) {
  return original.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
}

template <CaseMapping mapping>
Value change_case(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("case filter", {});
  return like(operand, map_case(text_of(runtime, operand), mapping));
}

// Words start after whitespace, '-', '(', '{', '[' and '<'.
Value title(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("title", {});
  const MarkedText text = text_of(runtime, operand);
  const std::string_view view = text.view();
  const auto is_separator = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  MarkedText out;
  for (size_t at = 0, n = 0; at < view.size();) {
    if (is_separator(code_point_at(view, at, &n))) {
      out.append(text, at, at + n);
      at += n;
      continue;
    }
    const size_t second = at + n;
    size_t end = second;
    while (end < view.size() && !is_separator(code_point_at(view, end, &n))) end += n;
    out.append(map_case(text.slice(at, second), CaseMapping::kUpper));
    out.append(map_case(text.slice(second, end), CaseMapping::kLower));
    at = end;
  }
  return Value(std::move(out));
}

Value string(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("string", {});
  return operand.is_string() ? operand : Value(text_of(runtime, operand));
}

Value safe(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("safe", {});
  return Value::markup(text_of(runtime, operand));
}

Value escape(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("escape", {});
  if (operand.is_markup()) return operand;
  return Value::markup(escape_html(text_of(runtime, operand)));
}

Value forceescape(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("forceescape", {});
  return Value::markup(escape_html(text_of(runtime, operand)));
}

Value trim(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("trim", {"chars"});
  const MarkedText text = text_of(runtime, operand);
  const Value* chars = arguments.get(0, "chars");
  std::pair<size_t, size_t> range;
  if (chars == nullptr || chars->is_none()) {
    range = strip_range(text.view(), StripSide::kBoth, nullptr);
  } else {
    const std::string_view set = to_string_argument(*chars, "trim").view();
    range = strip_range(text.view(), StripSide::kBoth, &set);
  }
  return like(operand, text.slice(range.first, range.second));
}

Value replace(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("replace", {"old", "new", "count"}, 2);
  const Value* count = arguments.get(2, "count");
  const MarkedText from = text_of(runtime, *arguments.get(0, "old"));
  return Value(
      replace_text(runtime,
                   text_of(runtime, operand),
                   from.view(),
                   text_of(runtime, *arguments.get(1, "new")),
                   count == nullptr || count->is_none() ? -1 : to_integer(*count, "replace")));
}

Value indent(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("indent", {"width", "first", "blank"});
  const Value* width = arguments.get(0, "width");
  const Value* first = arguments.get(1, "first");
  const Value* blank = arguments.get(2, "blank");
  MarkedText indention;
  if (width != nullptr && width->is_string()) {
    indention = width->as_text();
  } else {
    const int64_t n = width == nullptr ? 4 : to_integer(*width, "indent");
    if (n > 0) runtime.charge_bytes(static_cast<uint64_t>(n));
    indention = MarkedText(std::string(static_cast<size_t>(std::max<int64_t>(n, 0)), ' '));
  }
  MarkedText text = to_string_argument(operand, "indent");
  runtime.charge_bytes(text.size());
  text.append("\n", false);  // so that a final newline counts as the end of a line
  MarkedText out;
  if (first != nullptr && is_truthy(*first)) out.append(indention);
  const bool with_blank = blank != nullptr && is_truthy(*blank);
  bool is_first = true;
  for (const MarkedText& line : split_lines(text, false)) {
    runtime.charge_bytes(indention.size());
    if (!is_first) {
      out.append("\n", false);
      if (with_blank || !line.empty()) out.append(indention);
    }
    is_first = false;
    out.append(line);
  }
  return like(operand, std::move(out));
}

Value center(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("center", {"width"});
  const Value* width = arguments.get(0, "width");
  return like(operand,
              pad_text(runtime,
                       text_of(runtime, operand),
                       width == nullptr ? 80 : to_integer(*width, "center"),
                       '^',
                       " "));
}

Value format(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  if (!arguments.named.empty() && !arguments.positional.empty()) {
    template_fail("format() takes positional or named arguments, not both");
  }
  if (arguments.named.empty()) {
    return percent_format(
        runtime, Value(text_of(runtime, operand)), Value::tuple(arguments.positional));
  }
  Dict dict;
  for (const auto& [name, value] : arguments.named) dict.set(Value(name), value);
  return percent_format(runtime, Value(text_of(runtime, operand)), Value(std::move(dict)));
}

Value wordcount(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("wordcount", {});
  const MarkedText text = text_of(runtime, operand);
  int64_t n_words = 0;
  bool in_word = false;
  for (size_t at = 0, n = 0; at < text.size(); at += n) {
    const bool is_in_word = is_word(code_point_at(text.view(), at, &n));
    n_words += is_in_word && !in_word ? 1 : 0;
    in_word = is_in_word;
  }
  return n_words;
}

Value truncate(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("truncate", {"length", "killwords", "end", "leeway"});
  const auto integer = [&](size_t at, const char* name, int64_t otherwise) {
    const Value* value = arguments.get(at, name);
    return value == nullptr || value->is_none() ? otherwise : to_integer(*value, "truncate");
  };
  const Value* end = arguments.get(2, "end");
  const Value* killwords = arguments.get(1, "killwords");
  const MarkedText ending = end == nullptr ? MarkedText("...") : text_of(runtime, *end);
  const int64_t length = integer(0, "length", 255);
  const int64_t leeway = integer(3, "leeway", 5);
  const auto n_ending = static_cast<int64_t>(count_code_points(ending.view()));
  if (length < n_ending) template_fail("truncate: length {} is shorter than the end", length);
  if (leeway < 0) template_fail("truncate: leeway {} is negative", leeway);
  const std::optional<size_t> n_items = length_of(operand);
  if (!n_items) template_fail("truncate: {} has no length", type_name(operand));
  if (static_cast<int64_t>(*n_items) - length <= leeway) return operand;
  const MarkedText& text = to_string_argument(operand, "truncate");
  runtime.charge_bytes(text.size());
  MarkedText out = text.slice(0, byte_offset(text.view(), static_cast<size_t>(length - n_ending)));
  if (killwords == nullptr || !is_truthy(*killwords)) {
    out = out.slice(0, std::min(out.text().rfind(' '), out.size()));
  }
  out.append(ending);
  return Value(std::move(out));
}

Value default_value(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("default", {"default_value", "boolean"});
  const Value* otherwise = arguments.get(0, "default_value");
  const Value* boolean = arguments.get(1, "boolean");
  const bool takes_default =
      operand.is_undefined() || (boolean != nullptr && is_truthy(*boolean) && !is_truthy(operand));
  if (!takes_default) return operand;
  return otherwise == nullptr ? Value("") : *otherwise;
}

// The digits of int(text, base) without sign, underscores between digits allowed.
std::optional<int64_t> parse_integer(std::string_view text, int base) {
  const auto range = strip_range(text, StripSide::kBoth, nullptr);
  std::string digits(text.substr(range.first, range.second - range.first));
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.erase(0, 1);
  const auto has_prefix = [&](char letter) {
    return digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == letter;
  };
  bool had_prefix = true;
  if ((base == 16 || base == 0) && has_prefix('x')) {
    base = 16;
  } else if ((base == 8 || base == 0) && has_prefix('o')) {
    base = 8;
  } else if ((base == 2 || base == 0) && has_prefix('b')) {
    base = 2;
  } else {
    had_prefix = false;
    if (base == 0) base = 10;
  }
  if (had_prefix) digits.erase(0, 2);
  if (had_prefix && digits.starts_with('_')) digits.erase(0, 1);
  if (digits.empty() || digits.front() == '_' || digits.back() == '_' ||
      digits.find("__") != std::string::npos) {
    return std::nullopt;
  }
  std::erase(digits, '_');
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  uint64_t magnitude = 0;
  const auto parsed =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  if (parsed.ptr != digits.data() + digits.size() || parsed.ec == std::errc::invalid_argument) {
    return std::nullopt;
  }
  const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (parsed.ec != std::errc() || magnitude > limit) {
    template_fail("the integer '{}' does not fit 64 bits", digits.substr(0, 40));
  }
  return is_negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

std::optional<double> parse_float(std::string_view text) {
  const auto range = strip_range(text, StripSide::kBoth, nullptr);
  std::string digits(text.substr(range.first, range.second - range.first));
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.erase(0, 1);
  for (size_t at = digits.find('_'); at != std::string::npos; at = digits.find('_', at)) {
    const auto is_ascii_digit = [&](size_t i) {
      return i < digits.size() && digits[i] >= '0' && digits[i] <= '9';
    };
    if (at == 0 || !is_ascii_digit(at - 1) || !is_ascii_digit(at + 1)) return std::nullopt;
    digits.erase(at, 1);
  }
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  double value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ptr != digits.data() + digits.size() || parsed.ec == std::errc::invalid_argument) {
    return std::nullopt;
  }
  if (digits.find('(') != std::string::npos) return std::nullopt;  // nan(tag)
  if (parsed.ec == std::errc::result_out_of_range) {
    const bool is_small = digits.find("e-") != std::string::npos;
    value = is_small ? 0 : std::numeric_limits<double>::infinity();
  }
  return is_negative ? -value : value;
}

Value truncate_to_integer(double value) {
  if (!(std::fabs(value) < 0x1p63)) template_fail("integer result does not fit 64 bits");
  return static_cast<int64_t>(value);
}

Value to_int(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("int", {"default", "base"});
  const Value* otherwise = arguments.get(0, "default");
  const Value* base_argument = arguments.get(1, "base");
  const int64_t base = base_argument == nullptr ? 10 : to_integer(*base_argument, "int");
  require_defined(operand);
  if (operand.is_string()) {
    if ((base >= 2 && base <= 36) || base == 0) {
      if (auto value = parse_integer(operand.as_string(), static_cast<int>(base))) return *value;
    }
    const std::optional<double> value = parse_float(operand.as_string());
    if (value && !std::isnan(*value)) return truncate_to_integer(*value);
  } else if (operand.is_double()) {
    if (!std::isnan(operand.as_double())) return truncate_to_integer(operand.as_double());
  } else if (operand.is_int() || operand.is_bool()) {
    return to_integer(operand, "int");
  }
  return otherwise == nullptr ? Value(0) : *otherwise;
}

Value to_float(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("float", {"default"});
  const Value* otherwise = arguments.get(0, "default");
  require_defined(operand);
  std::optional<double> value = as_number(operand);
  if (operand.is_string()) value = parse_float(operand.as_string());
  if (value) return *value;
  return otherwise == nullptr ? Value(0.0) : *otherwise;
}

Value absolute(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("abs", {});
  if (operand.is_double()) return std::fabs(operand.as_double());
  const int64_t value = to_integer(operand, "abs");
  return value < 0 ? apply_unary(Operator::kNegate, Value(value)) : Value(value);
}

// round(value, digits): to even on the exact decimal value of the double, as CPython does.
double round_half_even(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 308) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / scale) * scale;
  }
  const std::string text = fmt::format("{:.{}f}", value, static_cast<int>(digits));
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

Value round_integer(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t scale = 1;
  for (int64_t i = digits; i < 0; ++i) scale *= 10;
  const int64_t rest = ((value % scale) + scale) % scale;
  const int64_t below = value - rest;
  const bool rounds_up = rest * 2 > scale || (rest * 2 == scale && (below / scale) % 2 != 0);
  return rounds_up ? below + scale : below;
}

Value round(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("round", {"precision", "method"});
  const Value* precision = arguments.get(0, "precision");
  const Value* method_argument = arguments.get(1, "method");
  const std::string method =
      method_argument == nullptr ? "common" : to_text(*method_argument).text();
  const int64_t digits = precision == nullptr ? 0 : to_integer(*precision, "round");
  if (method != "common" && method != "ceil" && method != "floor") {
    template_fail("round: method must be common, ceil or floor");
  }
  require_defined(operand);
  const std::optional<double> number = as_number(operand);
  if (!number) template_fail("round: expected a number, got {}", type_name(operand));
  if (method == "common") {
    return operand.is_double() ? Value(round_half_even(*number, digits))
                               : round_integer(to_integer(operand, "round"), digits);
  }
  if (!std::isfinite(*number)) template_fail("round: the value is not finite");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = *number * scale;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value tojson(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  const Value* ensure_ascii = arguments.get(0, "ensure_ascii");
  const Value* indent = arguments.get(1, "indent");
  const Value* separators = arguments.get(2, "separators");
  const Value* sort_keys = arguments.get(3, "sort_keys");
  style.ensure_ascii = ensure_ascii != nullptr && is_truthy(*ensure_ascii);
  style.sort_keys = sort_keys != nullptr && is_truthy(*sort_keys);
  if (indent != nullptr && !indent->is_none()) {
    style.item_separator = std::string(1, ',');
    if (indent->is_string()) {
      style.indent_text = indent->as_string();
      style.indent = 0;
    } else {
      const int64_t width = to_integer(*indent, "tojson");
      if (width > 64) template_fail("tojson: indent {} is too large", width);
      style.indent = static_cast<int>(std::max<int64_t>(width, 0));
    }
  }
  if (separators != nullptr && !separators->is_none()) {
    if (!separators->is_sequence() || separators->items().size() != 2) {
      template_fail("tojson: separators must be two strings");
    }
    style.item_separator = to_string_argument(separators->items()[0], "tojson").text();
    style.key_separator = to_string_argument(separators->items()[1], "tojson").text();
  }
  runtime.charge_bytes(operand.weight() * (style.indent > 0 ? 4 : 2));
  Result<MarkedText> text = dump_json(operand, style);
  if (!text) template_fail("tojson: {}", text.error().message);
  return runtime.text(std::move(*text));
}

Value attribute(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("attr", {"name"}, 1);
  const std::string name = text_of(runtime, *arguments.get(0, "name")).text();
  const Value undefined = Value::undefined(name);
  // Only attributes, never keys: of a dict that leaves its methods.
  if (operand.is_dict() && !has_method(operand, name)) return undefined;
  return get_attribute(runtime, operand, name, undefined);
}

constexpr FilterEntry kFilters[] = {
    {"abs", absolute},
    {"attr", attribute},
    {"capitalize", change_case<CaseMapping::kCapitalize>},
    {"center", center},
    {"d", default_value},
    {"default", default_value},
    {"e", escape},
    {"escape", escape},
    {"float", to_float},
    {"forceescape", forceescape},
    {"format", format},
    {"indent", indent},
    {"int", to_int},
    {"lower", change_case<CaseMapping::kLower>},
    {"replace", replace},
    {"round", round},
    {"safe", safe},
    {"string", string},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", change_case<CaseMapping::kUpper>},
    {"wordcount", wordcount},
};

}  // namespace

const FilterEntry* find_filter(std::string_view name) {
  const auto found = std::find_if(
      std::begin(kFilters), std::end(kFilters), [&](const auto& f) { return f.name == name; });
  return found != std::end(kFilters) ? found : find_sequence_filter(name);
}

}  // namespace millrace

#include "text/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja_access.h"
#include "text/jinja_format.h"

namespace millrace {
namespace {

[[noreturn]] void fail_types(std::string_view op, const Value& left, const Value& right) {
  require_defined(left);
  require_defined(right);
  template_fail(
      "unsupported operand types for {}: {} and {}", op, type_name(left), type_name(right));
}

[[noreturn]] void fail_overflow() {
  template_fail("integer result does not fit 64 bits");
}

bool is_integral(const Value& value) {
  return value.is_int() || value.is_bool();
}

int64_t integer_of(const Value& value) {
  return value.is_int() ? value.as_int() : (value.as_bool() ? 1 : 0);
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) template_fail("integer division or modulo by zero");
  if (b == -1 && a == std::numeric_limits<int64_t>::min()) fail_overflow();
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t modulo(int64_t a, int64_t b) {
  if (b == 0) template_fail("integer division or modulo by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// CPython's float_divmod.
std::pair<double, double> divide_with_rest(double a, double b) {
  if (b == 0) template_fail("float division or modulo by zero");
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  double floored = quotient;
  if (quotient != 0) {
    floored = std::floor(quotient);
    if (quotient - floored > 0.5) floored += 1;
  } else {
    floored = std::copysign(0.0, a / b);
  }
  return {floored, rest};
}

Value power(const Value& left, const Value& right) {
  if (is_integral(left) && is_integral(right) && integer_of(right) >= 0) {
    int64_t base = integer_of(left);
    int64_t result = 1;
    for (int64_t exponent = integer_of(right); exponent > 0; exponent >>= 1) {
      if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
      if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
    }
    return result;
  }
  const double base = *as_number(left);
  const double exponent = *as_number(right);
  if (base == 0 && exponent < 0) template_fail("zero cannot be raised to a negative power");
  const double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    template_fail("a negative number cannot be raised to a fractional power");
  }
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    template_fail("the result of ** is too large");
  }
  return result;
}

Value integer_arithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::kFloorDivide:
      return floor_divide(a, b);
    case Operator::kModulo:
      return modulo(a, b);
    default:
      if (b == 0) template_fail("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
  }
}

Value float_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kFloorDivide:
      return divide_with_rest(a, b).first;
    case Operator::kModulo:
      return divide_with_rest(a, b).second;
    default:
      if (b == 0) template_fail("float division by zero");
      return a / b;
  }
}

Value add_sequences(Runtime& runtime, const Value& left, const Value& right) {
  std::vector<Value> items;
  runtime.charge_bytes((left.items().size() + right.items().size()) * sizeof(Value));
  items.insert(items.end(), left.items().begin(), left.items().end());
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value add_strings(Runtime& runtime, const Value& left, const Value& right) {
  const bool is_markup = left.is_markup() || right.is_markup();
  const auto part = [&](const Value& value) {
    return is_markup && !value.is_markup() ? escape_html(value.as_text()) : value.as_text();
  };
  runtime.charge_bytes(left.as_text().size() + right.as_text().size());
  MarkedText text = part(left);
  text.append(part(right));
  return is_markup ? Value::markup(std::move(text)) : Value(std::move(text));
}

// text * n or [..] * n
Value repeat(Runtime& runtime, const Value& value, int64_t n) {
  const uint64_t count = static_cast<uint64_t>(std::max<int64_t>(n, 0));
  const uint64_t size =
      value.is_string() ? value.as_text().size() : value.items().size() * sizeof(Value);
  if (count != 0 && size > std::numeric_limits<uint64_t>::max() / count) {
    runtime.charge_bytes(std::numeric_limits<uint64_t>::max());
  }
  runtime.charge_bytes(size * count);
  if (value.is_string()) {
    MarkedText text;
    for (uint64_t i = 0; size > 0 && i < count; ++i) text.append(value.as_text());
    return value.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
  }
  std::vector<Value> items;
  for (uint64_t i = 0; size > 0 && i < count; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

bool is_repeatable(const Value& value) {
  return value.is_string() || value.is_list() || value.is_tuple();
}

const char* symbol(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    default:
      return "**";
  }
}

bool less_number(const Value& left, const Value& right) {
  if (is_integral(left) && is_integral(right)) return integer_of(left) < integer_of(right);
  if (left.is_double() && right.is_double()) return left.as_double() < right.as_double();
  // At least 64 bits of mantissa on our platforms, so int64 is exact.
  const auto exact = [](const Value& value) {
    return value.is_double() ? static_cast<long double>(value.as_double())
                             : static_cast<long double>(integer_of(value));
  };
  return exact(left) < exact(right);
}

}  // namespace

std::optional<double> as_number(const Value& value) {
  if (value.is_double()) return value.as_double();
  if (is_integral(value)) return static_cast<double>(integer_of(value));
  return std::nullopt;
}

MarkedText escape_html(const MarkedText& text) {
  MarkedText out;
  for (const TextPiece& piece : text.pieces()) {
    std::string escaped;
    for (const char c : piece.text) {
      switch (c) {
        case '&':
          escaped += "&amp;";
          break;
        case '<':
          escaped += "&lt;";
          break;
        case '>':
          escaped += "&gt;";
          break;
        case '"':
          escaped += "&#34;";
          break;
        case '\'':
          escaped += "&#39;";
          break;
        default:
          escaped += c;
      }
    }
    out.append(escaped, piece.is_input);
  }
  return out;
}

Value apply_unary(Operator op, const Value& operand) {
  const bool negates = op == Operator::kNegate;
  if (operand.is_double()) return negates ? -operand.as_double() : operand.as_double();
  if (is_integral(operand)) {
    return negates ? integer_arithmetic(Operator::kSubtract, 0, integer_of(operand))
                   : Value(integer_of(operand));
  }
  require_defined(operand);
  template_fail("bad operand type for unary {}: {}", negates ? "-" : "+", type_name(operand));
}

Value apply_binary(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  if (op == Operator::kAdd && left.is_string() && right.is_string()) {
    return add_strings(runtime, left, right);
  }
  if (op == Operator::kModulo && left.is_string()) return percent_format(runtime, left, right);
  if (is_integral(left) && is_integral(right) && op != Operator::kPower) {
    return integer_arithmetic(op, integer_of(left), integer_of(right));
  }
  const std::optional<double> a = as_number(left);
  const std::optional<double> b = as_number(right);
  if (a && b) return op == Operator::kPower ? power(left, right) : float_arithmetic(op, *a, *b);
  if (op == Operator::kAdd && left.kind() == right.kind() && (left.is_list() || left.is_tuple())) {
    return add_sequences(runtime, left, right);
  }
  if (op == Operator::kMultiply && is_repeatable(left) && is_integral(right)) {
    return repeat(runtime, left, integer_of(right));
  }
  if (op == Operator::kMultiply && is_repeatable(right) && is_integral(left)) {
    return repeat(runtime, right, integer_of(left));
  }
  fail_types(symbol(op), left, right);
}

bool is_equal(Runtime& runtime, const Value& left, const Value& right) {
  if (left.depth() > 0 && right.depth() > 0) {
    runtime.charge_bytes(std::min(left.weight(), right.weight()));
  }
  return equal(left, right);
}

bool is_less(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (as_number(left) && as_number(right)) return less_number(left, right);
  if (left.is_string() && right.is_string()) return left.as_string() < right.as_string();
  if (left.kind() == right.kind() && (left.is_list() || left.is_tuple())) {
    const size_t n = std::min(left.items().size(), right.items().size());
    for (size_t i = 0; i < n; ++i) {
      if (!is_equal(runtime, left.items()[i], right.items()[i])) {
        return is_less(runtime, left.items()[i], right.items()[i]);
      }
    }
    return left.items().size() < right.items().size();
  }
  fail_types("<", left, right);
}

bool apply_compare(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEqual:
      return is_equal(runtime, left, right);
    case Operator::kNotEqual:
      return !is_equal(runtime, left, right);
    case Operator::kLess:
      return is_less(runtime, left, right);
    case Operator::kGreater:
      return is_less(runtime, right, left);
    case Operator::kLessEqual:
      return is_less(runtime, left, right) || is_equal(runtime, left, right);
    case Operator::kGreaterEqual:
      return is_less(runtime, right, left) || is_equal(runtime, left, right);
    case Operator::kIn:
      return contains(runtime, right, left);
    default:
      return !contains(runtime, right, left);
  }
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      template_fail("'in <string>' requires a string on the left, not {}", type_name(item));
    }
    runtime.charge_bytes(container.as_text().size() / 16);
    return container.as_string().find(item.as_string()) != std::string::npos;
  }
  if (container.is_dict()) {
    if (!is_hashable(item)) template_fail("unhashable type: {}", type_name(item));
    return container.as_dict().find(item) != nullptr;
  }
  if (container.is_sequence()) {
    for (const Value& element : container.items()) {
      runtime.step();
      if (is_equal(runtime, element, item)) return true;
    }
    return false;
  }
  for (const Value& element : iterate(runtime, container)) {
    if (is_equal(runtime, element, item)) return true;
  }
  return false;
}

}  // namespace millrace

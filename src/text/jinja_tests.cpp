#include "text/jinja_tests.h"

#include <algorithm>
#include <cmath>

#include "text/jinja_access.h"
#include "text/jinja_filters.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace millrace {
namespace {

template <bool (*predicate)(const Value&)>
bool simple(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("test", {});
  return predicate(operand);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.is_bool();
}
bool is_true(const Value& value) {
  return value.is_bool() && value.as_bool();
}
bool is_false(const Value& value) {
  return value.is_bool() && !value.as_bool();
}
bool is_integer(const Value& value) {
  return value.is_int();
}
bool is_float(const Value& value) {
  return value.is_double();
}
bool is_number(const Value& value) {
  return as_number(value).has_value();
}
bool is_string(const Value& value) {
  return value.is_string();
}
bool is_mapping(const Value& value) {
  return value.is_dict();
}
bool is_escaped(const Value& value) {
  return value.is_markup();
}

bool is_callable(const Value& value) {
  if (!value.is_object()) return value.is_undefined();  // Python's Undefined has __call__
  switch (value.as_object().kind()) {
    case ObjectKind::kNamespace:
    case ObjectKind::kIterator:
    case ObjectKind::kCycler:
      return false;
    default:
      return true;
  }
}

// What has a length and can be subscripted, which Python's Undefined also claims.
bool is_sequence(const Value& value) {
  const bool is_dict_view = value.kind() == ValueKind::kView &&
                            std::string_view(value.as_sequence().type_name) != kRangeTypeName;
  return value.is_string() || value.is_dict() || value.is_undefined() ||
         (value.is_sequence() && !is_dict_view);
}

// Cased characters, all of them of one case.
template <bool upper>
bool has_case(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("test", {});
  runtime.charge_bytes(operand.weight());
  Arguments none;
  return call_method(runtime, Value(to_text(operand)), upper ? "isupper" : "islower", none)
      .as_bool();
}

template <int64_t rest>
bool has_parity(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("test", {});
  require_defined(operand);
  return equal(apply_binary(runtime, Operator::kModulo, operand, Value(2)), Value(rest));
}

bool is_divisible_by(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("divisibleby", {"num"}, 1);
  const Value& number = *arguments.get(0, "num");
  return equal(apply_binary(runtime, Operator::kModulo, operand, number), Value(0));
}

template <Operator op>
bool compare(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    template_fail("a comparing test takes one argument");
  }
  return apply_compare(runtime, op, operand, arguments.positional[0]);
}

bool is_in(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("in", {"seq"}, 1);
  return contains(runtime, *arguments.get(0, "seq"), operand);
}

bool is_same(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("sameas", {"other"}, 1);
  const Value& other = *arguments.get(0, "other");
  if (operand.kind() != other.kind()) return false;
  if (operand.identity() != nullptr) return operand.identity() == other.identity();
  return equal(operand, other);
}

bool is_iterable_test(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("iterable", {});
  return is_iterable(operand);
}

bool is_filter(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("filter", {});
  return operand.is_string() && find_filter(operand.as_string()) != nullptr;
}

bool is_test(Runtime&, const Value& operand, const Arguments& arguments) {
  arguments.check("test", {});
  return operand.is_string() && find_test(operand.as_string()) != nullptr;
}

constexpr TestEntry kTests[] = {
    {"!=", compare<Operator::kNotEqual>},
    {"<", compare<Operator::kLess>},
    {"<=", compare<Operator::kLessEqual>},
    {"==", compare<Operator::kEqual>},
    {">", compare<Operator::kGreater>},
    {">=", compare<Operator::kGreaterEqual>},
    {"boolean", simple<is_boolean>},
    {"callable", simple<is_callable>},
    {"defined", simple<is_defined>},
    {"divisibleby", is_divisible_by},
    {"eq", compare<Operator::kEqual>},
    {"equalto", compare<Operator::kEqual>},
    {"escaped", simple<is_escaped>},
    {"even", has_parity<0>},
    {"false", simple<is_false>},
    {"filter", is_filter},
    {"float", simple<is_float>},
    {"ge", compare<Operator::kGreaterEqual>},
    {"greaterthan", compare<Operator::kGreater>},
    {"gt", compare<Operator::kGreater>},
    {"in", is_in},
    {"integer", simple<is_integer>},
    {"iterable", is_iterable_test},
    {"le", compare<Operator::kLessEqual>},
    {"lessthan", compare<Operator::kLess>},
    {"lower", has_case<false>},
    {"lt", compare<Operator::kLess>},
    {"mapping", simple<is_mapping>},
    {"ne", compare<Operator::kNotEqual>},
    {"none", simple<is_none>},
    {"number", simple<is_number>},
    {"odd", has_parity<1>},
    {"sameas", is_same},
    {"sequence", simple<is_sequence>},
    {"string", simple<is_string>},
    {"test", is_test},
    {"true", simple<is_true>},
    {"undefined", simple<is_undefined>},
    {"upper", has_case<true>},
};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  const auto found = std::find_if(
      std::begin(kTests), std::end(kTests), [&](const auto& t) { return t.name == name; });
  return found != std::end(kTests) ? found : nullptr;
}

}  // namespace millrace

#pragma once
// Python's operators on values. Pure but for what they charge to the runtime.

#include <optional>

#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace millrace {

Value apply_unary(Operator op, const Value& operand);  // kNegate, kPlus
Value apply_binary(Runtime& runtime, Operator op, const Value& left, const Value& right);
bool apply_compare(Runtime& runtime, Operator op, const Value& left, const Value& right);
bool is_equal(Runtime& runtime, const Value& left, const Value& right);  // paid for
// Python's <. Fails for types without an order.
bool is_less(Runtime& runtime, const Value& left, const Value& right);
bool contains(Runtime& runtime, const Value& container, const Value& item);

std::optional<double> as_number(const Value& value);  // bool, int or double
MarkedText escape_html(const MarkedText& text);

}  // namespace millrace

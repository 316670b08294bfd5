// Expressions.
#include "text/jinja_access.h"
#include "text/jinja_filters.h"
#include "text/jinja_frame.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_tests.h"

namespace millrace {
Value Interpreter::evaluate(const Expression& node) {
  const NestGuard guard(*this);
  line_ = node.line;
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return static_cast<const Constant&>(node).value;
    case ExpressionKind::kName: {
      const auto& name = static_cast<const Name&>(node);
      const Value& value = slot(name.ref);
      return value.is_missing() ? name.undefined : value;
    }
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return evaluate_list(static_cast<const ListExpression&>(node));
    case ExpressionKind::kDict:
      return evaluate_dict(static_cast<const DictExpression&>(node));
    case ExpressionKind::kUnary: {
      const auto& unary = static_cast<const Unary&>(node);
      if (unary.op == Operator::kNot) return !is_true(*unary.operand);
      return apply_unary(unary.op, evaluate(*unary.operand));
    }
    case ExpressionKind::kBinary: {
      const auto& binary = static_cast<const Binary&>(node);
      const Value left = evaluate(*binary.left);
      Value storage;
      const Value& right = view(*binary.right, storage);
      line_ = node.line;
      return apply_binary(runtime_, binary.op, left, right);
    }
    case ExpressionKind::kLogical:
      return evaluate_logical(static_cast<const Binary&>(node));
    case ExpressionKind::kConcat:
      return evaluate_concat(static_cast<const Concat&>(node));
    case ExpressionKind::kCompare:
      return evaluate_compare(static_cast<const Compare&>(node));
    case ExpressionKind::kAttribute: {
      Value storage;
      return view_attribute(static_cast<const Attribute&>(node), storage);
    }
    case ExpressionKind::kSubscript: {
      const auto& subscript = static_cast<const Subscript&>(node);
      const Value object = evaluate(*subscript.object);
      Value storage;
      const Value& index = view(*subscript.index, storage);
      line_ = node.line;
      return get_item(runtime_, object, index);
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(static_cast<const SliceExpression&>(node));
    case ExpressionKind::kCall:
      return evaluate_call(static_cast<const CallExpression&>(node), nullptr);
    case ExpressionKind::kFilter:
      return evaluate_filter(static_cast<const FilterExpression&>(node), nullptr);
    case ExpressionKind::kTest:
      return evaluate_test(static_cast<const TestExpression&>(node));
    case ExpressionKind::kConditional: {
      const auto& conditional = static_cast<const Conditional&>(node);
      if (is_true(*conditional.test)) return evaluate(*conditional.when_true);
      if (conditional.when_false) return evaluate(*conditional.when_false);
      return Value::undefined("inline if without else");
    }
  }
  return Value();
}

const Value& Interpreter::view(const Expression& node, Value& storage) {
  if (node.kind == ExpressionKind::kConstant) return static_cast<const Constant&>(node).value;
  if (node.kind == ExpressionKind::kName) {
    const auto& name = static_cast<const Name&>(node);
    const Value& value = slot(name.ref);
    return value.is_missing() ? name.undefined : value;
  }
  if (node.kind == ExpressionKind::kAttribute) {
    const NestGuard guard(*this);
    return view_attribute(static_cast<const Attribute&>(node), storage);
  }
  storage = evaluate(node);
  return storage;
}

// Keys of dicts and attributes of namespaces are seen in place; the object may itself be in
// storage, so a value found there moves out of it.
const Value& Interpreter::view_attribute(const Attribute& node, Value& storage) {
  const Value& object = view(*node.object, storage);
  line_ = node.line;
  const bool is_stored = &object == &storage;
  if (!is_stored && object.is_dict() && !has_method(object, node.name)) {
    const Value* found = object.as_dict().find(node.name);
    return found != nullptr ? *found : node.undefined;
  }
  if (!is_stored) {
    if (auto* space = object_if<NamespaceObject>(object, ObjectKind::kNamespace)) {
      const Value* found = space->attributes.find(node.name);
      return found != nullptr ? *found : node.undefined;
    }
  }
  Value result = get_attribute(runtime_, object, node.name, node.undefined);
  storage = std::move(result);
  return storage;
}

bool Interpreter::is_true(const Expression& node) {
  if (node.kind == ExpressionKind::kTest) {
    const NestGuard guard(*this);
    return evaluate_test(static_cast<const TestExpression&>(node));
  }
  if (node.kind == ExpressionKind::kCompare) {
    const NestGuard guard(*this);
    return evaluate_compare(static_cast<const Compare&>(node));
  }
  if (node.kind == ExpressionKind::kLogical) {
    const NestGuard guard(*this);
    const auto& logical = static_cast<const Binary&>(node);
    const bool left = is_true(*logical.left);
    const bool is_decided = left == (logical.op == Operator::kOr);
    return is_decided ? left : is_true(*logical.right);
  }
  Value storage;
  return is_truthy(view(node, storage));
}

Value Interpreter::evaluate_list(const ListExpression& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const auto& item : node.items) items.push_back(evaluate(*item));
  runtime_.charge_bytes(items.size() * sizeof(Value));
  return node.kind == ExpressionKind::kList ? Value::list(std::move(items))
                                            : Value::tuple(std::move(items));
}

Value Interpreter::evaluate_dict(const DictExpression& node) {
  Dict dict;
  for (const auto& [key_node, value_node] : node.entries) {
    Value key = evaluate(*key_node);
    Value value = evaluate(*value_node);
    if (!is_hashable(key)) template_fail("unhashable type: {}", type_name(key));
    dict.set(std::move(key), std::move(value));
  }
  runtime_.charge_bytes(dict.size() * 2 * sizeof(Value));
  return dict;
}

Value Interpreter::evaluate_logical(const Binary& node) {
  Value left = evaluate(*node.left);
  const bool is_decided = is_truthy(left) == (node.op == Operator::kOr);
  return is_decided ? left : evaluate(*node.right);
}

Value Interpreter::evaluate_concat(const Concat& node) {
  // All operands first: one of them may print or fail.
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const auto& item : node.items) items.push_back(evaluate(*item));
  MarkedText text;
  for (const Value& item : items) {
    if (item.is_string()) {
      text.append(item.as_text());
      continue;
    }
    runtime_.charge_bytes(item.weight());
    text.append(to_text(item));
  }
  return runtime_.text(std::move(text));
}

bool Interpreter::evaluate_compare(const Compare& node) {
  if (node.rest.size() == 1 && node.rest[0].second->kind == ExpressionKind::kConstant) {
    Value storage;
    const Value& left = view(*node.first, storage);
    line_ = node.line;
    return apply_compare(runtime_,
                         node.rest[0].first,
                         left,
                         static_cast<const Constant&>(*node.rest[0].second).value);
  }
  Value left = evaluate(*node.first);
  for (const auto& [op, operand] : node.rest) {
    Value right = evaluate(*operand);
    line_ = node.line;
    if (!apply_compare(runtime_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_slice(const SliceExpression& node) {
  const Value object = evaluate(*node.object);
  const auto bound = [this](const ExpressionPtr& expression) {
    return expression ? evaluate(*expression) : Value();
  };
  const Value start = bound(node.start);
  const Value stop = bound(node.stop);
  const Value step = bound(node.step);
  line_ = node.line;
  return get_slice(runtime_, object, start, stop, step);
}

Value Interpreter::evaluate_filter(const FilterExpression& node, const Value* block_text) {
  // Filters of a block are a chain whose innermost operand is the block's text.
  Value operand;
  if (node.operand == nullptr) {
    operand = block_text != nullptr ? *block_text : Value("");
  } else if (block_text != nullptr && node.operand->kind == ExpressionKind::kFilter) {
    const NestGuard guard(*this);
    operand = evaluate_filter(static_cast<const FilterExpression&>(*node.operand), block_text);
  } else {
    operand = evaluate(*node.operand);
  }
  const Arguments arguments = evaluate_arguments(node.arguments);
  line_ = node.line;
  if (node.filter == nullptr) template_fail("no filter named '{}'", node.name);
  runtime_.step();
  return node.filter->function(runtime_, operand, arguments);
}

bool Interpreter::evaluate_test(const TestExpression& node) {
  const ArgumentList& list = node.arguments;
  const bool has_arguments =
      !list.positional.empty() || !list.named.empty() || list.spread || list.spread_named;
  if (!has_arguments) {
    Value storage;
    const Value& operand = view(*node.operand, storage);
    line_ = node.line;
    if (node.test == nullptr) template_fail("no test named '{}'", node.name);
    return node.test->function(runtime_, operand, Arguments());
  }
  const Value operand = evaluate(*node.operand);
  const Arguments arguments = evaluate_arguments(list);
  line_ = node.line;
  if (node.test == nullptr) template_fail("no test named '{}'", node.name);
  return node.test->function(runtime_, operand, arguments);
}

}  // namespace millrace

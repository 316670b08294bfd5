#pragma once
// Visiting the children of a node, for the passes over a template's tree.

#include "text/jinja_ast.h"

namespace millrace {

template <class Visit>
void for_each_argument(ArgumentList& arguments, const Visit& visit) {
  for (auto& argument : arguments.positional) visit(*argument);
  for (auto& [name, argument] : arguments.named) visit(*argument);
  if (arguments.spread) visit(*arguments.spread);
  if (arguments.spread_named) visit(*arguments.spread_named);
}

// visit(Expression&) for each operand in source order.
template <class Visit>
void for_each_operand(Expression& expression, const Visit& visit) {
  const auto visit_if = [&](const ExpressionPtr& operand) {
    if (operand) visit(*operand);
  };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
    case ExpressionKind::kName:
      return;
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      for (auto& item : static_cast<ListExpression&>(expression).items) visit(*item);
      return;
    case ExpressionKind::kDict:
      for (auto& [key, value] : static_cast<DictExpression&>(expression).entries) {
        visit(*key);
        visit(*value);
      }
      return;
    case ExpressionKind::kUnary:
      return visit(*static_cast<Unary&>(expression).operand);
    case ExpressionKind::kBinary:
    case ExpressionKind::kLogical:
      visit(*static_cast<Binary&>(expression).left);
      return visit(*static_cast<Binary&>(expression).right);
    case ExpressionKind::kConcat:
      for (auto& item : static_cast<Concat&>(expression).items) visit(*item);
      return;
    case ExpressionKind::kCompare:
      visit(*static_cast<Compare&>(expression).first);
      for (auto& [op, operand] : static_cast<Compare&>(expression).rest) visit(*operand);
      return;
    case ExpressionKind::kAttribute:
      return visit(*static_cast<Attribute&>(expression).object);
    case ExpressionKind::kSubscript:
      visit(*static_cast<Subscript&>(expression).object);
      return visit(*static_cast<Subscript&>(expression).index);
    case ExpressionKind::kSlice: {
      auto& slice = static_cast<SliceExpression&>(expression);
      visit(*slice.object);
      visit_if(slice.start);
      visit_if(slice.stop);
      return visit_if(slice.step);
    }
    case ExpressionKind::kCall:
      visit(*static_cast<CallExpression&>(expression).callee);
      return for_each_argument(static_cast<CallExpression&>(expression).arguments, visit);
    case ExpressionKind::kFilter:
      visit_if(static_cast<FilterExpression&>(expression).operand);
      return for_each_argument(static_cast<FilterExpression&>(expression).arguments, visit);
    case ExpressionKind::kTest:
      visit(*static_cast<TestExpression&>(expression).operand);
      return for_each_argument(static_cast<TestExpression&>(expression).arguments, visit);
    case ExpressionKind::kConditional: {
      auto& conditional = static_cast<Conditional&>(expression);
      visit(*conditional.test);
      visit(*conditional.when_true);
      return visit_if(conditional.when_false);
    }
  }
}

}  // namespace millrace

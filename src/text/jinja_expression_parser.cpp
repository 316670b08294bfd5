#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <array>

#include "text/jinja_error.h"

namespace millrace {
namespace {

struct OperatorName {
  std::string_view text;
  Operator op;
};

constexpr std::array<OperatorName, 6> kCompareOperators = {{{"==", Operator::kEqual},
                                                            {"!=", Operator::kNotEqual},
                                                            {"<", Operator::kLess},
                                                            {"<=", Operator::kLessEqual},
                                                            {">", Operator::kGreater},
                                                            {">=", Operator::kGreaterEqual}}};
constexpr std::array<OperatorName, 2> kSumOperators = {
    {{"+", Operator::kAdd}, {"-", Operator::kSubtract}}};
constexpr std::array<OperatorName, 4> kProductOperators = {{{"*", Operator::kMultiply},
                                                            {"/", Operator::kDivide},
                                                            {"//", Operator::kFloorDivide},
                                                            {"%", Operator::kModulo}}};

template <class Table>
const OperatorName* find_operator(const Table& table, const Token& token) {
  if (token.kind != TokenKind::kOperator) return nullptr;
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& o) { return o.text == token.text; });
  return found == table.end() ? nullptr : &*found;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kBlockEnd:
      return "the end of the tag";
    case TokenKind::kVariableEnd:
      return "the end of the expression";
    case TokenKind::kNumber:
      return "a number";
    case TokenKind::kString:
      return "a string";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting) {
    const int line = parser_.current().line;
    --parser_.nesting_;
    template_fail("line {}: nested more than {} deep", line, kMaxNesting);
  }
}

void ExpressionParser::error(std::string_view expected) const {
  template_fail("line {}: expected {}, found {}", current().line, expected, describe(current()));
}

void ExpressionParser::error_at(int line, std::string_view message) const {
  template_fail("line {}: {}", line, message);
}

void ExpressionParser::adopt(Expression& parent, const ExpressionPtr& child) const {
  if (child == nullptr) return;
  parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxHeight) error_at(parent.line, "the expression is too long");
}

void ExpressionParser::adopt(Expression& parent, const ArgumentList& arguments) const {
  for (const auto& argument : arguments.positional) adopt(parent, argument);
  for (const auto& [name, argument] : arguments.named) adopt(parent, argument);
  adopt(parent, arguments.spread);
  adopt(parent, arguments.spread_named);
}

Token ExpressionParser::take() {
  Token token = std::move(tokens_[at_]);
  if (token.kind == TokenKind::kEnd) {
    tokens_[at_] = token;
  } else {
    ++at_;
  }
  return token;
}

bool ExpressionParser::is_name(std::string_view name) const {
  return current().kind == TokenKind::kName && current().text == name;
}

bool ExpressionParser::is_operator(std::string_view op) const {
  return current().kind == TokenKind::kOperator && current().text == op;
}

bool ExpressionParser::take_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

bool ExpressionParser::take_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  take();
  return true;
}

void ExpressionParser::expect_operator(std::string_view op) {
  if (!take_operator(op)) error(fmt::format("'{}'", op));
}

void ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) error(what);
  take();
}

std::string ExpressionParser::expect_name(std::string_view what) {
  if (current().kind != TokenKind::kName) error(what);
  return take().text;
}

ExpressionPtr ExpressionParser::binary(ExpressionKind kind,
                                       Operator op,
                                       ExpressionPtr left,
                                       ExpressionPtr right) {
  auto node = std::make_unique<Binary>(kind, op, left->line);
  adopt(*node, left);
  adopt(*node, right);
  node->left = std::move(left);
  node->right = std::move(right);
  return node;
}

ExpressionPtr ExpressionParser::parse_expression(bool with_conditional) {
  const Nesting nesting(*this);
  return with_conditional ? parse_conditional() : parse_or();
}

ExpressionPtr ExpressionParser::parse_conditional() {
  ExpressionPtr value = parse_or();
  while (is_name("if")) {
    auto node = std::make_unique<Conditional>(take().line);
    node->test = parse_or();
    if (take_name("else")) node->when_false = parse_expression();
    node->when_true = std::move(value);
    adopt(*node, node->test);
    adopt(*node, node->when_true);
    adopt(*node, node->when_false);
    value = std::move(node);
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (take_name("or")) {
    left = binary(ExpressionKind::kLogical, Operator::kOr, std::move(left), parse_and());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (take_name("and")) {
    left = binary(ExpressionKind::kLogical, Operator::kAnd, std::move(left), parse_not());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Nesting nesting(*this);
  auto node = std::make_unique<Unary>(Operator::kNot, take().line);
  node->operand = parse_not();
  adopt(*node, node->operand);
  return node;
}

ExpressionPtr ExpressionParser::parse_compare() {
  ExpressionPtr first = parse_sum();
  auto node = std::make_unique<Compare>(first->line);
  while (true) {
    Operator op;
    if (const OperatorName* found = find_operator(kCompareOperators, current())) {
      op = found->op;
      take();
    } else if (take_name("in")) {
      op = Operator::kIn;
    } else if (is_name("not") && next().kind == TokenKind::kName && next().text == "in") {
      take();
      take();
      op = Operator::kNotIn;
    } else {
      break;
    }
    node->rest.emplace_back(op, parse_sum());
    adopt(*node, node->rest.back().second);
  }
  if (node->rest.empty()) return first;
  adopt(*node, first);
  node->first = std::move(first);
  return node;
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concat();
  while (const OperatorName* found = find_operator(kSumOperators, current())) {
    take();
    left = binary(ExpressionKind::kBinary, found->op, std::move(left), parse_concat());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  ExpressionPtr first = parse_product();
  if (!is_operator("~")) return first;
  auto node = std::make_unique<Concat>(first->line);
  adopt(*node, first);
  node->items.push_back(std::move(first));
  while (take_operator("~")) {
    node->items.push_back(parse_product());
    adopt(*node, node->items.back());
  }
  return node;
}

ExpressionPtr ExpressionParser::parse_product() {
  ExpressionPtr left = parse_power();
  while (const OperatorName* found = find_operator(kProductOperators, current())) {
    take();
    left = binary(ExpressionKind::kBinary, found->op, std::move(left), parse_power());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (take_operator("**")) {
    left = binary(ExpressionKind::kBinary, Operator::kPower, std::move(left), parse_unary(true));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  ExpressionPtr node;
  if (is_operator("-") || is_operator("+")) {
    const Nesting nesting(*this);
    const Token sign = take();
    auto unary =
        std::make_unique<Unary>(sign.text == "-" ? Operator::kNegate : Operator::kPlus, sign.line);
    unary->operand = parse_unary(false);
    adopt(*unary, unary->operand);
    node = std::move(unary);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const int line = current().line;
  switch (current().kind) {
    case TokenKind::kName: {
      std::string name = take().text;
      if (name == "true" || name == "True") return std::make_unique<Constant>(Value(true), line);
      if (name == "false" || name == "False") return std::make_unique<Constant>(Value(false), line);
      if (name == "none" || name == "None") return std::make_unique<Constant>(Value(), line);
      return std::make_unique<Name>(std::move(name), line);
    }
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kNumber:
      return std::make_unique<Constant>(take().number, line);
    case TokenKind::kOperator:
      if (take_operator("(")) {
        ExpressionPtr inner = parse_tuple(true, TupleEnd::kTag, true);
        expect_operator(")");
        return inner;
      }
      if (is_operator("[")) return parse_list();
      if (is_operator("{")) return parse_dict();
      break;
    default:
      break;
  }
  error("an expression");
}

ExpressionPtr ExpressionParser::parse_string() {
  const int line = current().line;
  std::string text = take().text;
  while (current().kind == TokenKind::kString) text += take().text;
  return std::make_unique<Constant>(Value(std::move(text)), line);
}

bool ExpressionParser::is_tuple_end(TupleEnd end) const {
  if (current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
      is_operator(")")) {
    return true;
  }
  return (end == TupleEnd::kIn && is_name("in")) ||
         (end == TupleEnd::kRecursive && is_name("recursive"));
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_conditional,
                                            TupleEnd end,
                                            bool has_brackets) {
  auto tuple = std::make_unique<ListExpression>(ExpressionKind::kTuple, current().line);
  bool has_comma = false;
  while (!is_tuple_end(end)) {
    tuple->items.push_back(parse_expression(with_conditional));
    adopt(*tuple, tuple->items.back());
    if (!take_operator(",")) break;
    has_comma = true;
  }
  if (has_comma || (tuple->items.empty() && has_brackets)) return tuple;
  if (tuple->items.empty()) error("an expression");
  return std::move(tuple->items[0]);
}

ExpressionPtr ExpressionParser::parse_list() {
  auto list = std::make_unique<ListExpression>(ExpressionKind::kList, take().line);
  while (!is_operator("]")) {
    list->items.push_back(parse_expression());
    adopt(*list, list->items.back());
    if (!take_operator(",")) break;
  }
  expect_operator("]");
  return list;
}

ExpressionPtr ExpressionParser::parse_dict() {
  auto dict = std::make_unique<DictExpression>(take().line);
  while (!is_operator("}")) {
    ExpressionPtr key = parse_expression();
    expect_operator(":");
    ExpressionPtr value = parse_expression();
    adopt(*dict, key);
    adopt(*dict, value);
    dict->entries.emplace_back(std::move(key), std::move(value));
    if (!take_operator(",")) break;
  }
  expect_operator("}");
  return dict;
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr object) {
  while (true) {
    if (is_operator(".")) {
      object = parse_attribute(std::move(object));
    } else if (is_operator("[")) {
      object = parse_subscript(std::move(object));
    } else if (is_operator("(")) {
      object = parse_call(std::move(object));
    } else {
      return object;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr operand) {
  while (true) {
    if (take_operator("|")) {
      operand = parse_filter(std::move(operand));
    } else if (is_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (is_operator("(")) {
      operand = parse_call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::parse_attribute(ExpressionPtr object) {
  const int line = take().line;
  if (current().kind == TokenKind::kNumber && current().number.is_int()) {
    auto node = std::make_unique<Subscript>(line);
    node->index = std::make_unique<Constant>(take().number, line);
    adopt(*node, object);
    node->object = std::move(object);
    return node;
  }
  auto node = std::make_unique<Attribute>(line);
  node->name = expect_name("an attribute name after '.'");
  node->undefined = Value::undefined(node->name);
  adopt(*node, object);
  node->object = std::move(object);
  return node;
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const int line = take().line;
  std::array<ExpressionPtr, 3> bounds;
  size_t n_colons = 0;
  while (!is_operator("]")) {
    if (n_colons < 2 && take_operator(":")) {
      ++n_colons;
      continue;
    }
    if (bounds[n_colons] != nullptr) {
      if (n_colons == 0 && is_operator(",")) break;
      error("']'");
    }
    bounds[n_colons] = parse_expression();
  }
  if (n_colons > 0) {
    expect_operator("]");
    auto node = std::make_unique<SliceExpression>(line);
    for (const auto& bound : bounds) adopt(*node, bound);
    adopt(*node, object);
    node->object = std::move(object);
    node->start = std::move(bounds[0]);
    node->stop = std::move(bounds[1]);
    node->step = std::move(bounds[2]);
    return node;
  }
  auto node = std::make_unique<Subscript>(line);
  if (bounds[0] != nullptr && !is_operator(",")) {
    node->index = std::move(bounds[0]);
  } else {
    auto tuple = std::make_unique<ListExpression>(ExpressionKind::kTuple, line);
    if (bounds[0] != nullptr) tuple->items.push_back(std::move(bounds[0]));
    while (take_operator(",")) tuple->items.push_back(parse_expression());
    for (const auto& item : tuple->items) adopt(*tuple, item);
    node->index = std::move(tuple);
  }
  expect_operator("]");
  adopt(*node, node->index);
  adopt(*node, object);
  node->object = std::move(object);
  return node;
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  auto node = std::make_unique<CallExpression>(current().line);
  node->arguments = parse_arguments();
  adopt(*node, node->arguments);
  adopt(*node, callee);
  node->callee = std::move(callee);
  return node;
}

ArgumentList ExpressionParser::parse_arguments() {
  ArgumentList arguments;
  const int line = current().line;
  expect_operator("(");
  while (!is_operator(")")) {
    if (is_operator("*") || is_operator("**")) {
      const bool is_named = take().text == "**";
      ExpressionPtr& spread = is_named ? arguments.spread_named : arguments.spread;
      if (spread != nullptr || arguments.spread_named != nullptr) {
        error_at(line, "invalid arguments of a call");
      }
      spread = parse_expression();
    } else if (current().kind == TokenKind::kName && next().kind == TokenKind::kOperator &&
               next().text == "=") {
      if (arguments.spread_named != nullptr) error_at(line, "invalid arguments of a call");
      std::string name = take().text;
      take();
      for (const auto& named : arguments.named) {
        if (named.first == name) error_at(line, fmt::format("argument '{}' is repeated", name));
      }
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!arguments.named.empty() || arguments.spread != nullptr ||
          arguments.spread_named != nullptr) {
        error_at(line, "invalid arguments of a call");
      }
      arguments.positional.push_back(parse_expression());
    }
    if (!take_operator(",")) break;
  }
  expect_operator(")");
  return arguments;
}

std::string ExpressionParser::parse_dotted_name(std::string_view what) {
  std::string name = expect_name(what);
  while (take_operator(".")) name += "." + expect_name(what);
  return name;
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr operand) {
  auto node = std::make_unique<FilterExpression>(current().line);
  node->name = parse_dotted_name("the name of a filter");
  if (is_operator("(")) node->arguments = parse_arguments();
  adopt(*node, node->arguments);
  adopt(*node, operand);
  node->operand = std::move(operand);
  return node;
}

ExpressionPtr ExpressionParser::parse_block_filter(bool is_inline) {
  ExpressionPtr filter;
  if (is_inline) filter = parse_filter(nullptr);
  while (take_operator("|")) filter = parse_filter(std::move(filter));
  return filter;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr operand) {
  auto node = std::make_unique<TestExpression>(take().line);
  const bool is_negated = take_name("not");
  node->name = parse_dotted_name("the name of a test");
  if (is_operator("(")) {
    node->arguments = parse_arguments();
  } else if (current().kind == TokenKind::kString || current().kind == TokenKind::kNumber ||
             is_operator("[") || is_operator("{") ||
             (current().kind == TokenKind::kName && !is_name("else") && !is_name("or") &&
              !is_name("and"))) {
    if (is_name("is")) error("the end of the test");
    node->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  adopt(*node, node->arguments);
  adopt(*node, operand);
  node->operand = std::move(operand);
  if (!is_negated) return node;
  auto negation = std::make_unique<Unary>(Operator::kNot, node->line);
  negation->operand = std::move(node);
  adopt(*negation, negation->operand);
  return negation;
}

Target ExpressionParser::to_target(const Expression& expression) const {
  Target target;
  target.line = expression.line;
  if (expression.kind == ExpressionKind::kName) {
    target.name = static_cast<const Name&>(expression).name;
    return target;
  }
  if (expression.kind != ExpressionKind::kTuple) {
    error_at(expression.line, "only names can be assigned to");
  }
  target.kind = Target::Kind::kTuple;
  for (const auto& item : static_cast<const ListExpression&>(expression).items) {
    target.items.push_back(to_target(*item));
  }
  return target;
}

Target ExpressionParser::parse_target(TupleEnd end, bool with_namespace) {
  if (with_namespace && next().kind == TokenKind::kOperator && next().text == ".") {
    Target target;
    target.kind = Target::Kind::kNamespace;
    target.line = current().line;
    target.name = expect_name("a namespace");
    take();
    target.attribute = expect_name("an attribute name after '.'");
    return target;
  }
  auto tuple = std::make_unique<ListExpression>(ExpressionKind::kTuple, current().line);
  bool has_comma = false;
  while (!is_tuple_end(end)) {
    tuple->items.push_back(parse_primary());
    if (!take_operator(",")) break;
    has_comma = true;
  }
  if (tuple->items.empty()) error("a name to assign to");
  return has_comma ? to_target(*tuple) : to_target(*tuple->items[0]);
}

}  // namespace millrace

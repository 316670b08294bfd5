#pragma once
// Expressions of a template, in Jinja's grammar and precedence. One object per parse, one thread.

#include <span>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace millrace {

class ExpressionParser {
 public:
  static constexpr int kMaxNesting = 128;  // brackets, not, unary signs, blocks
  static constexpr int kMaxHeight = 256;   // of an expression's tree

  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // What separates a tuple without brackets from what follows it.
  enum class TupleEnd { kTag, kIn, kRecursive };

  ExpressionPtr parse_expression(bool with_conditional = true);
  // One expression, or several with commas as a tuple.
  ExpressionPtr parse_tuple(bool with_conditional, TupleEnd end, bool has_brackets = false);
  // Filters that apply to the text of a block; name first when is_inline, else "| name".
  ExpressionPtr parse_block_filter(bool is_inline);
  Target parse_target(TupleEnd end, bool with_namespace);

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool is_name(std::string_view name) const;
  bool is_operator(std::string_view op) const;
  bool take_name(std::string_view name);
  bool take_operator(std::string_view op);
  void expect_operator(std::string_view op);
  void expect(TokenKind kind, std::string_view what);
  std::string expect_name(std::string_view what);

  [[noreturn]] void error(std::string_view expected) const;
  [[noreturn]] void error_at(int line, std::string_view message) const;

  // Depth of brackets and blocks; throws beyond kMaxNesting.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_string();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr object);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr operand);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_filter(ExpressionPtr operand);
  ExpressionPtr parse_test(ExpressionPtr operand);
  ArgumentList parse_arguments();
  std::string parse_dotted_name(std::string_view what);
  bool is_tuple_end(TupleEnd end) const;
  Target to_target(const Expression& expression) const;
  ExpressionPtr binary(ExpressionKind kind, Operator op, ExpressionPtr left, ExpressionPtr right);

  // Sets the height from the operands and throws when the tree grows too high.
  void adopt(Expression& parent, const ExpressionPtr& child) const;
  void adopt(Expression& parent, const ArgumentList& arguments) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace millrace

#pragma once
// The tree of a parsed template. Built by the parser, annotated with variable slots by the scope
// pass, read only afterwards; any thread may read it.

#include <memory>
#include <string>
#include <vector>

#include "text/value.h"

namespace millrace {

enum class ExpressionKind : uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,
  kUnary,
  kBinary,
  kLogical,
  kConcat,
  kCompare,
  kAttribute,
  kSubscript,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kConditional,
};

struct Expression {
  explicit Expression(ExpressionKind kind, int line) : kind(kind), line(line) {}
  virtual ~Expression() = default;
  ExpressionKind kind;
  int line;
  int height = 1;  // 1 + the highest operand
};
using ExpressionPtr = std::unique_ptr<Expression>;

// Where a variable lives: a slot of the activation `hops` functions further out.
struct SlotRef {
  int hops = 0;
  int slot = -1;
};

struct Constant : Expression {
  Constant(Value value, int line)
      : Expression(ExpressionKind::kConstant, line), value(std::move(value)) {}
  Value value;
};

struct Name : Expression {
  Name(std::string name, int line)
      : Expression(ExpressionKind::kName, line),
        name(std::move(name)),
        undefined(Value::undefined(this->name)) {}
  std::string name;
  Value undefined;  // what the name gives when it has no value
  SlotRef ref;
};

struct ListExpression : Expression {  // also tuples
  using Expression::Expression;
  std::vector<ExpressionPtr> items;
};

struct DictExpression : Expression {
  explicit DictExpression(int line) : Expression(ExpressionKind::kDict, line) {}
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kNegate,
  kPlus,
  kNot,
  kAnd,
  kOr,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Unary : Expression {
  Unary(Operator op, int line) : Expression(ExpressionKind::kUnary, line), op(op) {}
  Operator op;
  ExpressionPtr operand;
};

struct Binary : Expression {  // arithmetic, and with kind kLogical: and, or
  Binary(ExpressionKind kind, Operator op, int line) : Expression(kind, line), op(op) {}
  Operator op;
  ExpressionPtr left;
  ExpressionPtr right;
};

struct Concat : Expression {
  explicit Concat(int line) : Expression(ExpressionKind::kConcat, line) {}
  std::vector<ExpressionPtr> items;
};

struct Compare : Expression {
  explicit Compare(int line) : Expression(ExpressionKind::kCompare, line) {}
  ExpressionPtr first;
  std::vector<std::pair<Operator, ExpressionPtr>> rest;
};

struct Attribute : Expression {
  explicit Attribute(int line) : Expression(ExpressionKind::kAttribute, line) {}
  ExpressionPtr object;
  std::string name;
  Value undefined;  // what a missing attribute gives
};

struct Subscript : Expression {
  explicit Subscript(int line) : Expression(ExpressionKind::kSubscript, line) {}
  ExpressionPtr object;
  ExpressionPtr index;
};

struct SliceExpression : Expression {  // object[start:stop:step], each may be null
  explicit SliceExpression(int line) : Expression(ExpressionKind::kSlice, line) {}
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};

struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;        // *list
  ExpressionPtr spread_named;  // **dict
};

struct CallExpression : Expression {
  explicit CallExpression(int line) : Expression(ExpressionKind::kCall, line) {}
  ExpressionPtr callee;
  ArgumentList arguments;
};

struct FilterEntry;  // jinja_filters.h
struct TestEntry;    // jinja_tests.h

struct FilterExpression : Expression {
  explicit FilterExpression(int line) : Expression(ExpressionKind::kFilter, line) {}
  ExpressionPtr operand;  // null: the text of the enclosing filter block or set block
  std::string name;
  const FilterEntry* filter = nullptr;  // null: unknown name, an error when it is reached
  ArgumentList arguments;
};

struct TestExpression : Expression {
  explicit TestExpression(int line) : Expression(ExpressionKind::kTest, line) {}
  ExpressionPtr operand;
  std::string name;
  const TestEntry* test = nullptr;
  ArgumentList arguments;
};

struct Conditional : Expression {
  explicit Conditional(int line) : Expression(ExpressionKind::kConditional, line) {}
  ExpressionPtr test;
  ExpressionPtr when_true;
  ExpressionPtr when_false;  // null: undefined
};

// What assignments and loops bind.
struct Target {
  enum class Kind : uint8_t { kName, kTuple, kNamespace } kind = Kind::kName;
  std::string name;
  std::string attribute;  // kNamespace: name.attribute
  SlotRef ref;
  std::vector<Target> items;  // kTuple
  int line = 0;
};

// Variables of one scope. When the scope is entered each load runs: copy from an outer slot, look
// up in the context, or become missing.
struct ScopeLoad {
  enum class Kind : uint8_t { kMissing, kAlias, kContext } kind = Kind::kMissing;
  int slot = -1;
  SlotRef from;      // kAlias
  std::string name;  // kContext
};
struct Scope {
  std::vector<ScopeLoad> loads;
};

enum class StatementKind : uint8_t {
  kData,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kBreak,
  kContinue,
};

struct Statement {
  explicit Statement(StatementKind kind, int line) : kind(kind), line(line) {}
  virtual ~Statement() = default;
  StatementKind kind;
  int line;
};
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

struct DataStatement : Statement {
  DataStatement(std::string text, int line)
      : Statement(StatementKind::kData, line), text(std::move(text)) {}
  std::string text;
};

struct OutputStatement : Statement {
  explicit OutputStatement(int line) : Statement(StatementKind::kOutput, line) {}
  ExpressionPtr value;
};

struct IfStatement : Statement {
  explicit IfStatement(int line) : Statement(StatementKind::kIf, line) {}
  struct Branch {
    ExpressionPtr test;  // null: else
    Body body;
  };
  std::vector<Branch> branches;
};

struct ForStatement : Statement {
  explicit ForStatement(int line) : Statement(StatementKind::kFor, line) {}
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr filter;  // `if` of the head
  bool is_recursive = false;
  Body body;
  Body otherwise;

  // Set by the scope pass.
  bool uses_loop = false;
  SlotRef loop_ref;
  Scope body_scope;
  Scope otherwise_scope;
  Scope filter_scope;
  Target filter_target;  // the target again, in slots of the filter's scope
  int n_slots = 0;       // of the function that a recursive loop is
};

struct SetStatement : Statement {
  explicit SetStatement(int line) : Statement(StatementKind::kSet, line) {}
  Target target;
  ExpressionPtr value;
};

// {% set x %}...{% endset %} and {% filter f %}...{% endfilter %}: capture, filter, then assign or
// print.
struct CaptureStatement : Statement {
  using Statement::Statement;
  Target target;         // kSetBlock only
  ExpressionPtr filter;  // innermost operand is null; may be null in kSetBlock
  Body body;
  Scope scope;
};

struct Function {
  std::string name;  // empty: call block
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;

  // Set by the scope pass.
  std::vector<int> parameter_slots;
  int caller_slot = -1;
  int kwargs_slot = -1;
  int varargs_slot = -1;
  bool has_explicit_caller = false;
  Scope scope;
  int n_slots = 0;
};

struct MacroStatement : Statement {
  explicit MacroStatement(int line) : Statement(StatementKind::kMacro, line) {}
  Function function;
  SlotRef ref;
};

struct CallBlockStatement : Statement {  // {% call %}; {% generation %} has no call
  explicit CallBlockStatement(int line) : Statement(StatementKind::kCallBlock, line) {}
  Function function;
  ExpressionPtr call;  // a CallExpression, or null
};

struct ParsedTemplate {
  Body body;
  Scope scope;
  int n_slots = 0;
};

}  // namespace millrace

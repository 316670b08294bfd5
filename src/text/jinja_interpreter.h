#pragma once
// Runs a parsed template over a context. One object per rendering, one thread.

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_loop.h"
#include "text/jinja_runtime.h"

namespace millrace {

// The variables of one call of a function: macro, call block, recursive loop or the template.
struct Activation {
  std::vector<Value> slots;
  Activation* outer = nullptr;
  bool is_captured = false;  // a macro made here may be called after this call has returned
};

struct MacroObject : TemplateObject {
  MacroObject(const Function& function, Activation& outer)
      : TemplateObject(ObjectKind::kMacro, "Macro"), function(&function), outer(&outer) {}
  const Function* function;
  Activation* outer;
};

class Interpreter {
 public:
  // All three outlive the interpreter. context wins over globals.
  Interpreter(Runtime& runtime, const Dict& context, const Dict& globals)
      : runtime_(runtime), context_(context), globals_(globals) {}

  // Throws TemplateError; line() is then where it happened.
  MarkedText run(const ParsedTemplate& parsed);
  int line() const { return line_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Frame;      // an activation while it runs
  class NestGuard;  // counts nested evaluations

  // Statements: jinja_interpreter.cpp
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_if(const IfStatement& node);
  void execute_for(const ForStatement& node);
  Flow run_loop(const ForStatement& node, Value source, Activation* outer, int depth0);
  bool run_iterations(const ForStatement& node, LoopObject& loop, const Value& loop_value);
  bool passes_filter(const ForStatement& node, const Value& item);
  MarkedText call_loop(LoopObject& loop, Value source);
  Flow execute_capture(const CaptureStatement& node);
  void execute_macro(const MacroStatement& node);
  void execute_call_block(const CallBlockStatement& node);
  void capture_activation();  // it and those around it outlive their calls
  void enter(const Scope& scope);
  void assign(const Target& target, Value value);
  void require_namespace(const Target& target);
  void store(SlotRef ref, Value value);
  Value lookup(const std::string& name) const;
  Value& slot(SlotRef ref);
  void emit(const MarkedText& text);
  void emit(const Value& value);
  void check_output() const;

  // Calls: jinja_calls.cpp
  Value call(const Value& callee, Arguments& arguments);
  Value call_macro(const MacroObject& macro, Arguments& arguments);
  void bind_parameters(const Function& function, Arguments& arguments);
  Value evaluate_call(const CallExpression& node, const Value* caller);
  Value call_on_variable(const Attribute& callee, const CallExpression& node, bool* is_done);
  Arguments evaluate_arguments(const ArgumentList& list);

  // Expressions: jinja_evaluate.cpp
  Value evaluate(const Expression& node);
  // Without a copy where the value lies in a variable or a constant. The reference holds until
  // anything else is evaluated.
  const Value& view(const Expression& node, Value& storage);
  bool is_true(const Expression& node);
  Value evaluate_list(const ListExpression& node);
  Value evaluate_dict(const DictExpression& node);
  Value evaluate_logical(const Binary& node);
  Value evaluate_concat(const Concat& node);
  bool evaluate_compare(const Compare& node);
  const Value& view_attribute(const Attribute& node, Value& storage);
  Value evaluate_slice(const SliceExpression& node);
  Value evaluate_filter(const FilterExpression& node, const Value* block_text);
  bool evaluate_test(const TestExpression& node);

  Runtime& runtime_;
  const Dict& context_;
  const Dict& globals_;
  Activation* activation_ = nullptr;
  std::deque<std::unique_ptr<Activation>> captured_;  // kept until the end of the rendering
  MarkedText* out_ = nullptr;
  size_t n_emitted_ = 0;  // bytes, over all buffers
  int line_ = 0;
  int nesting_ = 0;
  int n_calls_ = 0;
};

}  // namespace millrace

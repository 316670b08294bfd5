// Statements: output, control flow, scopes.
#include "text/jinja_interpreter.h"

#include "text/jinja_access.h"
#include "text/jinja_frame.h"

namespace millrace {
namespace {

// Sends output to another buffer while it lives.
class Redirect {
 public:
  Redirect(MarkedText*& out, MarkedText& buffer) : out_(out), saved_(std::exchange(out, &buffer)) {}
  ~Redirect() { out_ = saved_; }
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;

 private:
  MarkedText*& out_;
  MarkedText* saved_;
};

class FinishLoop {
 public:
  explicit FinishLoop(LoopObject& loop) : loop_(loop) {}
  ~FinishLoop() { loop_.finish(); }
  FinishLoop(const FinishLoop&) = delete;
  FinishLoop& operator=(const FinishLoop&) = delete;

 private:
  LoopObject& loop_;
};

}  // namespace

MarkedText Interpreter::run(const ParsedTemplate& parsed) {
  MarkedText out;
  const Redirect redirect(out_, out);
  const Frame frame(*this, nullptr, parsed.n_slots);
  enter(parsed.scope);
  execute(parsed.body);
  return out;
}

Value Interpreter::lookup(const std::string& name) const {
  if (const Value* found = context_.find(name)) return *found;
  if (const Value* found = globals_.find(name)) return *found;
  return Value::missing();
}

Value& Interpreter::slot(SlotRef ref) {
  Activation* activation = activation_;
  for (int i = 0; i < ref.hops; ++i) activation = activation->outer;
  return activation->slots[static_cast<size_t>(ref.slot)];
}

void Interpreter::enter(const Scope& scope) {
  for (const ScopeLoad& load : scope.loads) {
    Value& target = activation_->slots[static_cast<size_t>(load.slot)];
    switch (load.kind) {
      case ScopeLoad::Kind::kMissing:
        target = Value::missing();
        break;
      case ScopeLoad::Kind::kAlias:
        target = slot(load.from);
        break;
      case ScopeLoad::Kind::kContext:
        target = lookup(load.name);
        break;
    }
  }
}

void Interpreter::store(SlotRef ref, Value value) {
  if (value.depth() > Value::kMaxDepth) {
    template_fail("values nest more than {} deep", Value::kMaxDepth);
  }
  slot(ref) = std::move(value);
}

void Interpreter::require_namespace(const Target& target) {
  const Value& value = slot(target.ref);
  if (object_if<NamespaceObject>(value, ObjectKind::kNamespace) == nullptr) {
    template_fail("'{}' is not a namespace, its attributes cannot be set", target.name);
  }
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.kind == Target::Kind::kName) return store(target.ref, std::move(value));
  if (target.kind == Target::Kind::kNamespace) {
    require_namespace(target);
    if (value.depth() > Value::kMaxDepth) {
      template_fail("values nest more than {} deep", Value::kMaxDepth);
    }
    auto& space = static_cast<NamespaceObject&>(slot(target.ref).as_object());
    space.attributes.set(Value(target.attribute), std::move(value));
    return;
  }
  require_defined(value);
  std::vector<Value> items = iterate(runtime_, value);
  if (items.size() != target.items.size()) {
    template_fail("expected {} values to unpack, got {}", target.items.size(), items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], std::move(items[i]));
}

void Interpreter::check_output() const {
  if (n_emitted_ > runtime_.limits().max_output_bytes) {
    throw TemplateError{
        ErrorCode::kResourceExhausted,
        fmt::format("output of more than {} bytes", runtime_.limits().max_output_bytes),
        false};
  }
}

void Interpreter::emit(const MarkedText& text) {
  n_emitted_ += text.size();
  check_output();
  out_->append(text);
}

void Interpreter::emit(const Value& value) {
  if (value.is_string()) return emit(value.as_text());
  if (value.is_undefined()) return;
  runtime_.charge_bytes(value.weight());
  emit(to_text(value));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  const NestGuard guard(*this);
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kData: {
      const std::string& text = static_cast<const DataStatement&>(statement).text;
      n_emitted_ += text.size();
      check_output();
      out_->append(text, false);
      return Flow::kNext;
    }
    case StatementKind::kOutput: {
      Value storage;
      emit(view(*static_cast<const OutputStatement&>(statement).value, storage));
      return Flow::kNext;
    }
    case StatementKind::kIf:
      return execute_if(static_cast<const IfStatement&>(statement));
    case StatementKind::kFor: {
      const auto& loop = static_cast<const ForStatement&>(statement);
      if (loop.is_recursive) {
        execute_for(loop);
        return Flow::kNext;
      }
      return run_loop(loop, evaluate(*loop.iterable), nullptr, 0);
    }
    case StatementKind::kSet: {
      const auto& set = static_cast<const SetStatement&>(statement);
      if (set.target.kind == Target::Kind::kNamespace) require_namespace(set.target);
      assign(set.target, evaluate(*set.value));
      return Flow::kNext;
    }
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock:
      return execute_capture(static_cast<const CaptureStatement&>(statement));
    case StatementKind::kMacro:
      execute_macro(static_cast<const MacroStatement&>(statement));
      return Flow::kNext;
    case StatementKind::kCallBlock:
      execute_call_block(static_cast<const CallBlockStatement&>(statement));
      return Flow::kNext;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const IfStatement& node) {
  for (const IfStatement::Branch& branch : node.branches) {
    if (branch.test == nullptr || is_true(*branch.test)) return execute(branch.body);
  }
  return Flow::kNext;
}

// A recursive loop is a function of its own, called here for the first time.
void Interpreter::execute_for(const ForStatement& node) {
  Value source = evaluate(*node.iterable);
  MarkedText text;
  {
    const Redirect redirect(out_, text);
    const Frame frame(*this, activation_, node.n_slots);
    run_loop(node, std::move(source), activation_->outer, 0);
  }
  out_->append(text);
}

MarkedText Interpreter::call_loop(LoopObject& loop, Value source) {
  if (loop.recursive_statement == nullptr) {
    template_fail("only a loop marked 'recursive' can be called");
  }
  const ForStatement& node = *loop.recursive_statement;
  Activation* outer = loop.outer;
  const int depth0 = loop.depth0 + 1;
  MarkedText text;
  const Redirect redirect(out_, text);
  const Frame frame(*this, outer, node.n_slots);
  run_loop(node, std::move(source), outer, depth0);
  return text;
}

bool Interpreter::passes_filter(const ForStatement& node, const Value& item) {
  // The condition's variables lie in the function around the loop.
  Activation* saved = activation_;
  if (node.is_recursive) activation_ = activation_->outer;
  enter(node.filter_scope);
  assign(node.filter_target, item);
  const bool passes = is_true(*node.filter);
  activation_ = saved;
  return passes;
}

Interpreter::Flow Interpreter::run_loop(const ForStatement& node,
                                        Value source,
                                        Activation* outer,
                                        int depth0) {
  if (object_if<IteratorObject>(source, ObjectKind::kIterator) == nullptr) {
    source = to_sequence(runtime_, source);
  }
  Activation* const home = activation_;
  std::function<bool(const Value&)> accepts;
  if (node.filter) {
    accepts = [this, &node, home](const Value& item) {
      Activation* saved = std::exchange(activation_, home);
      const bool passes = passes_filter(node, item);
      activation_ = saved;
      return passes;
    };
  }
  bool has_completed = false;
  if (node.uses_loop) {
    auto loop = std::make_shared<LoopObject>(std::move(source), std::move(accepts));
    const FinishLoop finish(*loop);
    loop->depth0 = depth0;
    if (node.is_recursive) {
      loop->recursive_statement = &node;
      loop->outer = outer;
    }
    has_completed = run_iterations(node, *loop, Value(std::shared_ptr<TemplateObject>(loop)));
  } else {
    LoopObject loop(std::move(source), std::move(accepts));
    has_completed = run_iterations(node, loop, Value());
  }
  if (has_completed || node.otherwise.empty()) return Flow::kNext;
  enter(node.otherwise_scope);
  return execute(node.otherwise);
}

// Whether the body ran to its end once. An iteration that `continue` or `break` cut short does not
// count, as in Jinja, where the else part then still runs.
bool Interpreter::run_iterations(const ForStatement& node,
                                 LoopObject& loop,
                                 const Value& loop_value) {
  bool has_completed = false;
  while (loop.advance()) {
    runtime_.step();
    assign(node.target, loop.current());
    if (node.uses_loop) activation_->slots[static_cast<size_t>(node.loop_ref.slot)] = loop_value;
    enter(node.body_scope);
    const Flow flow = execute(node.body);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) has_completed = true;
  }
  return has_completed;
}

Interpreter::Flow Interpreter::execute_capture(const CaptureStatement& node) {
  MarkedText text;
  Flow flow = Flow::kNext;
  {
    const Redirect redirect(out_, text);
    enter(node.scope);
    flow = execute(node.body);
  }
  if (flow != Flow::kNext) return flow;  // the text is lost, as in Jinja
  Value value = runtime_.text(std::move(text));
  if (node.filter) {
    const Value block_text = std::move(value);
    value = evaluate_filter(static_cast<const FilterExpression&>(*node.filter), &block_text);
  }
  if (node.kind == StatementKind::kSetBlock) {
    if (node.target.kind == Target::Kind::kNamespace) require_namespace(node.target);
    assign(node.target, std::move(value));
  } else {
    emit(to_string_argument(value, "filter block"));
  }
  return Flow::kNext;
}

void Interpreter::capture_activation() {
  for (Activation* a = activation_; a != nullptr && !a->is_captured; a = a->outer) {
    a->is_captured = true;
  }
}

void Interpreter::execute_macro(const MacroStatement& node) {
  capture_activation();
  slot(node.ref) = Value(
      std::shared_ptr<TemplateObject>(std::make_shared<MacroObject>(node.function, *activation_)));
}

void Interpreter::execute_call_block(const CallBlockStatement& node) {
  capture_activation();
  const Value caller(
      std::shared_ptr<TemplateObject>(std::make_shared<MacroObject>(node.function, *activation_)));
  if (node.call == nullptr) {
    Arguments none;
    emit(call(caller, none));
    return;
  }
  const Value result = evaluate_call(static_cast<const CallExpression&>(*node.call), &caller);
  emit(to_string_argument(result, "call block"));
}

}  // namespace millrace

// Calls of macros, methods, functions and loops.
#include <algorithm>

#include "text/jinja_access.h"
#include "text/jinja_frame.h"
#include "text/jinja_globals.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_methods.h"

namespace millrace {
namespace {

// Takes a named argument out; false when it is not there.
bool take_named(Arguments& arguments, std::string_view name, Value* value) {
  const auto found = std::find_if(arguments.named.begin(),
                                  arguments.named.end(),
                                  [&](const auto& named) { return named.first == name; });
  if (found == arguments.named.end()) return false;
  *value = std::move(found->second);
  arguments.named.erase(found);
  return true;
}

}  // namespace

Arguments Interpreter::evaluate_arguments(const ArgumentList& list) {
  Arguments arguments;
  arguments.positional.reserve(list.positional.size());
  for (const auto& node : list.positional) arguments.positional.push_back(evaluate(*node));
  for (const auto& [name, node] : list.named) arguments.named.emplace_back(name, evaluate(*node));
  if (list.spread) {
    for (Value& item : iterate(runtime_, evaluate(*list.spread))) {
      arguments.positional.push_back(std::move(item));
    }
  }
  if (list.spread_named) {
    const Value named = evaluate(*list.spread_named);
    if (!named.is_dict()) template_fail("** needs a mapping, got {}", type_name(named));
    for (const auto& [key, value] : named.as_dict()) {
      if (!key.is_string()) template_fail("names of arguments must be strings");
      for (const auto& other : arguments.named) {
        if (other.first == key.as_string()) {
          template_fail("argument '{}' is given twice", key.as_string());
        }
      }
      arguments.named.emplace_back(key.as_string(), value);
    }
  }
  return arguments;
}

Value Interpreter::evaluate_call(const CallExpression& node, const Value* caller) {
  if (node.callee->kind == ExpressionKind::kAttribute) {
    const auto& attribute = static_cast<const Attribute&>(*node.callee);
    bool is_done = false;
    Value result = call_on_variable(attribute, node, &is_done);
    if (is_done) return result;
    Value storage;
    const Value object = view(*attribute.object, storage);
    if (!object.is_object() && !object.is_undefined() && has_method(object, attribute.name)) {
      Arguments arguments = evaluate_arguments(node.arguments);
      if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
      line_ = node.line;
      return call_method(runtime_, object, attribute.name, arguments);
    }
    const Value callee = get_attribute(runtime_, object, attribute.name, attribute.undefined);
    Arguments arguments = evaluate_arguments(node.arguments);
    if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
    line_ = node.line;
    return call(callee, arguments);
  }
  const Value callee = evaluate(*node.callee);
  Arguments arguments = evaluate_arguments(node.arguments);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  line_ = node.line;
  return call(callee, arguments);
}

// variable.append(...) and the like, and the same for an attribute of a namespace.
Value Interpreter::call_on_variable(const Attribute& callee,
                                    const CallExpression& node,
                                    bool* is_done) {
  if (callee.object->kind == ExpressionKind::kName) {
    const SlotRef ref = static_cast<const Name&>(*callee.object).ref;
    if (!is_mutating_method(slot(ref), callee.name)) return Value();
    *is_done = true;
    Arguments arguments = evaluate_arguments(node.arguments);
    line_ = node.line;
    if (!is_mutating_method(slot(ref), callee.name)) template_fail("the variable has changed");
    return call_mutating_method(runtime_, slot(ref), callee.name, arguments);
  }
  if (callee.object->kind != ExpressionKind::kAttribute) return Value();
  const auto& attribute = static_cast<const Attribute&>(*callee.object);
  if (attribute.object->kind != ExpressionKind::kName) return Value();
  const SlotRef ref = static_cast<const Name&>(*attribute.object).ref;
  auto* space = object_if<NamespaceObject>(slot(ref), ObjectKind::kNamespace);
  const Value* found = space == nullptr ? nullptr : space->attributes.find(attribute.name);
  if (found == nullptr || !is_mutating_method(*found, callee.name)) return Value();
  *is_done = true;
  Arguments arguments = evaluate_arguments(node.arguments);
  line_ = node.line;
  // Out of the namespace and back, so that nothing else holds the container while it changes.
  found = space->attributes.find(attribute.name);
  if (found == nullptr || !is_mutating_method(*found, callee.name)) {
    template_fail("'{}' changed while its arguments were evaluated", attribute.name);
  }
  Value container = *found;
  space->attributes.set(Value(attribute.name), Value());
  Value result = call_mutating_method(runtime_, container, callee.name, arguments);
  space->attributes.set(Value(attribute.name), std::move(container));
  return result;
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  require_defined(callee);
  if (const auto* macro = object_if<MacroObject>(callee, ObjectKind::kMacro)) {
    return call_macro(*macro, arguments);
  }
  if (const auto* function = object_if<FunctionObject>(callee, ObjectKind::kFunction)) {
    return function->function(runtime_, arguments);
  }
  if (const auto* method = object_if<MethodObject>(callee, ObjectKind::kMethod)) {
    return call_method(runtime_, method->self, method->name, arguments);
  }
  if (auto* loop = object_if<LoopObject>(callee, ObjectKind::kLoop)) {
    arguments.check("loop", {"iterable"}, 1);
    return runtime_.text(call_loop(*loop, *arguments.get(0, "iterable")));
  }
  if (auto* joiner = object_if<JoinerObject>(callee, ObjectKind::kJoiner)) {
    arguments.check("joiner", {});
    return std::exchange(joiner->was_used, true) ? joiner->separator : Value("");
  }
  template_fail("{} cannot be called", type_name(callee));
}

// Fills the slots of the new activation; absent parameters stay missing.
void Interpreter::bind_parameters(const Function& function, Arguments& arguments) {
  const size_t n_parameters = function.parameters.size();
  const size_t n_given = std::min(arguments.positional.size(), n_parameters);
  std::vector<Value>& slots = activation_->slots;
  const auto set = [&](int at, Value value) {
    if (value.depth() > Value::kMaxDepth) {
      template_fail("values nest more than {} deep", Value::kMaxDepth);
    }
    slots[static_cast<size_t>(at)] = std::move(value);
  };
  bool found_caller = n_given == n_parameters && function.has_explicit_caller;
  for (size_t i = 0; i < n_parameters; ++i) {
    const std::string& name = function.parameters[i];
    if (i < n_given) {
      set(function.parameter_slots[i], arguments.positional[i]);
      continue;
    }
    found_caller = found_caller || name == "caller";
    Value value;
    if (take_named(arguments, name, &value)) set(function.parameter_slots[i], std::move(value));
  }
  if (function.caller_slot >= 0 && !found_caller) {
    Value caller;
    const bool has_caller = take_named(arguments, "caller", &caller) && !caller.is_none();
    set(function.caller_slot, has_caller ? std::move(caller) : Value::undefined("caller"));
  }
  if (function.kwargs_slot >= 0) {
    Dict rest;
    for (auto& [name, value] : arguments.named) rest.set(Value(name), std::move(value));
    set(function.kwargs_slot, Value(std::move(rest)));
  } else if (!arguments.named.empty()) {
    template_fail("macro '{}' has no argument named '{}'", function.name, arguments.named[0].first);
  }
  if (function.varargs_slot >= 0) {
    set(function.varargs_slot,
        Value::tuple({arguments.positional.begin() + static_cast<ptrdiff_t>(n_given),
                      arguments.positional.end()}));
  } else if (arguments.positional.size() > n_parameters) {
    template_fail("macro '{}' takes at most {} arguments, {} were given",
                  function.name,
                  n_parameters,
                  arguments.positional.size());
  }
}

Value Interpreter::call_macro(const MacroObject& macro, Arguments& arguments) {
  const Function& function = *macro.function;
  const Frame frame(*this, macro.outer, function.n_slots);
  bind_parameters(function, arguments);
  MarkedText text;
  MarkedText* saved = std::exchange(out_, &text);
  const struct Restore {
    MarkedText*& out;
    MarkedText* saved;
    ~Restore() { out = saved; }
  } restore{out_, saved};
  enter(function.scope);
  const size_t n_required = function.parameters.size() - function.defaults.size();
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const SlotRef ref{0, function.parameter_slots[i]};
    if (!slot(ref).is_missing()) continue;
    Value value = i < n_required ? Value::undefined(function.parameters[i])
                                 : evaluate(*function.defaults[i - n_required]);
    store(ref, std::move(value));
  }
  execute(function.body);
  return runtime_.text(std::move(text));
}

}  // namespace millrace

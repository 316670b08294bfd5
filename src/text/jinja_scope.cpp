#include "text/jinja_scope.h"

#include <algorithm>
#include <optional>
#include <set>

#include "text/jinja_error.h"
#include "text/jinja_filters.h"
#include "text/jinja_tests.h"
#include "text/jinja_walk.h"

namespace millrace {
namespace {

// One activation: the slots of a function and of all scopes in it.
struct FunctionSlots {
  int depth = 0;  // functions around this one
  int n_slots = 0;
};

// What is known about the names of one scope. Branches of an `if` work on copies, which are merged
// afterwards: a name that only some branches assign keeps its outer value in the others.
struct Symbols {
  const Symbols* parent = nullptr;
  FunctionSlots* function = nullptr;
  struct Entry {
    std::string name;
    int slot;
    ScopeLoad load;
    bool is_parameter;
  };
  std::vector<Entry> entries;
  std::vector<std::string> stores;

  const Entry* find(const std::string& name) const {
    const auto found = std::find_if(
        entries.begin(), entries.end(), [&](const Entry& entry) { return entry.name == name; });
    return found == entries.end() ? nullptr : &*found;
  }
  Entry* find(const std::string& name) {
    return const_cast<Entry*>(static_cast<const Symbols*>(this)->find(name));
  }
  bool has_store(const std::string& name) const {
    return std::find(stores.begin(), stores.end(), name) != stores.end();
  }

  // The slot as seen from a function of this depth.
  std::optional<SlotRef> ref(const std::string& name, int from_depth) const {
    for (const Symbols* scope = this; scope != nullptr; scope = scope->parent) {
      if (const Entry* entry = scope->find(name)) {
        return SlotRef{from_depth - scope->function->depth, entry->slot};
      }
    }
    return std::nullopt;
  }

  Entry& define(const std::string& name, ScopeLoad load, bool is_parameter) {
    Entry* entry = find(name);
    if (entry == nullptr) {
      entries.push_back({name, function->n_slots++, {}, false});
      entry = &entries.back();
    }
    load.slot = entry->slot;
    entry->load = std::move(load);
    entry->is_parameter = is_parameter;
    return *entry;
  }

  void load(const std::string& name) {
    if (ref(name, 0)) return;
    define(name, {ScopeLoad::Kind::kContext, -1, {}, name}, false);
  }

  // How a name starts in this scope when it gets its value here or further out.
  ScopeLoad outer_load(const std::string& name, ScopeLoad::Kind otherwise) const {
    const auto outer = parent ? parent->ref(name, function->depth) : std::nullopt;
    if (outer) return {ScopeLoad::Kind::kAlias, -1, *outer, name};
    return {otherwise, -1, {}, name};
  }

  void store(const std::string& name) {
    if (!has_store(name)) stores.push_back(name);
    if (find(name) == nullptr) define(name, outer_load(name, ScopeLoad::Kind::kMissing), false);
  }

  int parameter(const std::string& name) {
    if (!has_store(name)) stores.push_back(name);
    return define(name, {}, true).slot;
  }

  void merge_branches(const std::vector<Symbols>& branches) {
    std::vector<std::string> partial;  // assigned in some branches but not in all
    for (const Symbols& branch : branches) {
      for (const std::string& name : branch.stores) {
        const auto n = std::count_if(
            branches.begin(), branches.end(), [&](const Symbols& b) { return b.has_store(name); });
        if (!has_store(name) && static_cast<size_t>(n) < branches.size()) partial.push_back(name);
      }
    }
    for (const Symbols& branch : branches) {
      for (const Entry& entry : branch.entries) {
        Entry* own = find(entry.name);
        if (own == nullptr) {
          entries.push_back(entry);
        } else {
          own->load = entry.load;
          own->load.slot = own->slot;
          own->is_parameter = entry.is_parameter;
        }
      }
      for (const std::string& name : branch.stores) {
        if (!has_store(name)) stores.push_back(name);
      }
    }
    for (const std::string& name : partial) {
      define(name, outer_load(name, ScopeLoad::Kind::kContext), false);
    }
  }

  Scope to_scope() const {
    Scope scope;
    for (const Entry& entry : entries) {
      if (!entry.is_parameter) scope.loads.push_back(entry.load);
    }
    return scope;
  }
};

// First pass over one scope: which names does it load and store. Stops where other scopes begin.
class Collector {
 public:
  explicit Collector(Symbols& symbols) : symbols_(&symbols) {}

  void expression(Expression& node) {
    if (node.kind == ExpressionKind::kName) symbols_->load(static_cast<Name&>(node).name);
    for_each_operand(node, [this](Expression& operand) { expression(operand); });
  }

  void target(const Target& target, bool is_parameter) {
    if (target.kind == Target::Kind::kTuple) {
      for (const Target& item : target.items) this->target(item, is_parameter);
    } else if (target.kind == Target::Kind::kNamespace) {
      symbols_->load(target.name);
    } else if (is_parameter) {
      symbols_->parameter(target.name);
    } else {
      symbols_->store(target.name);
    }
  }

  void body(Body& body) {
    for (auto& node : body) statement(*node);
  }

  void statement(Statement& node) {
    switch (node.kind) {
      case StatementKind::kOutput:
        return expression(*static_cast<OutputStatement&>(node).value);
      case StatementKind::kIf:
        return branches(static_cast<IfStatement&>(node), 0);
      case StatementKind::kFor:
        return expression(*static_cast<ForStatement&>(node).iterable);
      case StatementKind::kSet:
        expression(*static_cast<SetStatement&>(node).value);
        return target(static_cast<SetStatement&>(node).target, false);
      case StatementKind::kSetBlock:
        return target(static_cast<CaptureStatement&>(node).target, false);
      case StatementKind::kFilterBlock:
        return expression(*static_cast<CaptureStatement&>(node).filter);
      case StatementKind::kMacro:
        return symbols_->store(static_cast<MacroStatement&>(node).function.name);
      case StatementKind::kCallBlock:
        if (auto& call = static_cast<CallBlockStatement&>(node).call) expression(*call);
        return;
      default:
        return;
    }
  }

 private:
  // Jinja merges three branches for each test: the body, all elif parts together, else.
  void branches(IfStatement& node, size_t first) {
    IfStatement::Branch& branch = node.branches[first];
    expression(*branch.test);
    const bool has_else = node.branches.back().test == nullptr;
    const size_t n_tests = node.branches.size() - (has_else ? 1 : 0);
    std::vector<Symbols> copies;
    copies.push_back(on_copy([&] { body(branch.body); }));
    copies.push_back(on_copy([&] {
      for (size_t i = 1; first == 0 && i < n_tests; ++i) branches(node, i);
    }));
    copies.push_back(on_copy([&] {
      if (first == 0 && has_else) body(node.branches.back().body);
    }));
    symbols_->merge_branches(copies);
  }

  template <class Visit>
  Symbols on_copy(const Visit& visit) {
    Symbols copy = *symbols_;
    Symbols* original = std::exchange(symbols_, &copy);
    visit();
    symbols_ = original;
    return copy;
  }

  Symbols* symbols_;
};

// Which of the wanted names does code load before it assigns them, nested scopes included.
class UndeclaredFinder {
 public:
  explicit UndeclaredFinder(std::set<std::string> wanted) : wanted_(std::move(wanted)) {}

  const std::set<std::string>& found() const { return found_; }

  void body(Body& body) {
    for (auto& node : body) statement(*node);
  }

 private:
  void expression(Expression& node) {
    if (node.kind == ExpressionKind::kName) {
      const std::string& name = static_cast<Name&>(node).name;
      if (wanted_.count(name) != 0) found_.insert(name);
    }
    for_each_operand(node, [this](Expression& operand) { expression(operand); });
  }

  void target(const Target& target) {
    if (target.kind == Target::Kind::kName) wanted_.erase(target.name);
    for (const Target& item : target.items) this->target(item);
  }

  void function(Function& function) {
    for (const std::string& name : function.parameters) wanted_.erase(name);
    for (auto& value : function.defaults) expression(*value);
    body(function.body);
  }

  void statement(Statement& node) {
    switch (node.kind) {
      case StatementKind::kOutput:
        return expression(*static_cast<OutputStatement&>(node).value);
      case StatementKind::kIf:
        for (auto& branch : static_cast<IfStatement&>(node).branches) {
          if (branch.test) expression(*branch.test);
          body(branch.body);
        }
        return;
      case StatementKind::kFor: {
        auto& loop = static_cast<ForStatement&>(node);
        target(loop.target);
        expression(*loop.iterable);
        body(loop.body);
        body(loop.otherwise);
        if (loop.filter) expression(*loop.filter);
        return;
      }
      case StatementKind::kSet:
        target(static_cast<SetStatement&>(node).target);
        return expression(*static_cast<SetStatement&>(node).value);
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock: {
        auto& capture = static_cast<CaptureStatement&>(node);
        if (node.kind == StatementKind::kSetBlock) target(capture.target);
        if (capture.filter) expression(*capture.filter);
        return body(capture.body);
      }
      case StatementKind::kMacro:
        return function(static_cast<MacroStatement&>(node).function);
      case StatementKind::kCallBlock: {
        auto& block = static_cast<CallBlockStatement&>(node);
        if (block.call) expression(*block.call);
        return function(block.function);
      }
      default:
        return;
    }
  }

  std::set<std::string> wanted_;
  std::set<std::string> found_;
};

// Second pass: gives every node its slots, scope by scope.
class Binder {
 public:
  void root(ParsedTemplate& parsed) {
    FunctionSlots function;
    Symbols symbols{nullptr, &function, {}, {}};
    Collector(symbols).body(parsed.body);
    parsed.scope = symbols.to_scope();
    body(parsed.body, symbols, false);
    parsed.n_slots = function.n_slots;
  }

 private:
  static SlotRef ref(const Symbols& symbols, const std::string& name) {
    const auto found = symbols.ref(name, symbols.function->depth);
    if (!found) template_fail("the name '{}' has no scope", name);
    return *found;
  }

  void expression(Expression& node, const Symbols& symbols, bool is_soft) {
    if (node.kind == ExpressionKind::kName) {
      auto& name = static_cast<Name&>(node);
      name.ref = ref(symbols, name.name);
    } else if (node.kind == ExpressionKind::kFilter) {
      auto& filter = static_cast<FilterExpression&>(node);
      filter.filter = find_filter(filter.name);
      if (filter.filter == nullptr && !is_soft) unknown("filter", filter.name, node.line);
    } else if (node.kind == ExpressionKind::kTest) {
      auto& test = static_cast<TestExpression&>(node);
      test.test = find_test(test.name);
      if (test.test == nullptr && !is_soft) unknown("test", test.name, node.line);
    }
    // Inside conditions an unknown filter is an error only when it is reached.
    const bool is_inner_soft = is_soft || node.kind == ExpressionKind::kConditional;
    for_each_operand(node,
                     [&](Expression& operand) { expression(operand, symbols, is_inner_soft); });
  }

  [[noreturn]] static void unknown(const char* what, const std::string& name, int line) {
    template_fail("line {}: no {} named '{}'", line, what, name);
  }

  static void target(Target& target, const Symbols& symbols) {
    if (target.kind != Target::Kind::kTuple) target.ref = ref(symbols, target.name);
    for (Target& item : target.items) Binder::target(item, symbols);
  }

  void body(Body& body, const Symbols& symbols, bool is_soft) {
    for (auto& node : body) statement(*node, symbols, is_soft);
  }

  void statement(Statement& node, const Symbols& symbols, bool is_soft) {
    switch (node.kind) {
      case StatementKind::kOutput:
        return expression(*static_cast<OutputStatement&>(node).value, symbols, is_soft);
      case StatementKind::kIf:
        for (auto& branch : static_cast<IfStatement&>(node).branches) {
          if (branch.test) expression(*branch.test, symbols, true);
          body(branch.body, symbols, true);
        }
        return;
      case StatementKind::kFor:
        return loop(static_cast<ForStatement&>(node), symbols, is_soft);
      case StatementKind::kSet:
        expression(*static_cast<SetStatement&>(node).value, symbols, is_soft);
        return target(static_cast<SetStatement&>(node).target, symbols);
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock:
        return capture(static_cast<CaptureStatement&>(node), symbols);
      case StatementKind::kMacro: {
        auto& macro = static_cast<MacroStatement&>(node);
        function(macro.function, symbols);
        macro.ref = ref(symbols, macro.function.name);
        return;
      }
      case StatementKind::kCallBlock: {
        auto& block = static_cast<CallBlockStatement&>(node);
        function(block.function, symbols);
        if (block.call) expression(*block.call, symbols, is_soft);
        return;
      }
      default:
        return;
    }
  }

  void loop(ForStatement& node, const Symbols& outer, bool is_soft) {
    expression(*node.iterable, outer, is_soft);
    if (node.filter) {
      Symbols symbols{&outer, outer.function, {}, {}};
      Collector collector(symbols);
      collector.target(node.target, true);
      collector.expression(*node.filter);
      node.filter_scope = symbols.to_scope();
      node.filter_target = node.target;
      target(node.filter_target, symbols);
      expression(*node.filter, symbols, false);
    }
    FunctionSlots own_function{outer.function->depth + 1, 0};
    FunctionSlots* function = node.is_recursive ? &own_function : outer.function;
    Symbols symbols{&outer, function, {}, {}};
    UndeclaredFinder finder({"loop"});
    finder.body(node.body);
    node.uses_loop = node.is_recursive || !finder.found().empty();
    if (node.uses_loop) node.loop_ref = {0, symbols.parameter("loop")};
    Collector collector(symbols);
    collector.target(node.target, true);
    collector.body(node.body);
    node.body_scope = symbols.to_scope();
    target(node.target, symbols);
    body(node.body, symbols, false);

    Symbols otherwise{&outer, function, {}, {}};
    Collector(otherwise).body(node.otherwise);
    node.otherwise_scope = otherwise.to_scope();
    body(node.otherwise, otherwise, false);
    node.n_slots = own_function.n_slots;
  }

  void capture(CaptureStatement& node, const Symbols& outer) {
    Symbols symbols{&outer, outer.function, {}, {}};
    Collector collector(symbols);
    collector.body(node.body);
    if (node.filter) collector.expression(*node.filter);
    node.scope = symbols.to_scope();
    body(node.body, symbols, false);
    if (node.filter) expression(*node.filter, symbols, false);
    if (node.kind == StatementKind::kSetBlock) target(node.target, outer);
  }

  void function(Function& node, const Symbols& outer) {
    FunctionSlots function{outer.function->depth + 1, 0};
    Symbols symbols{&outer, &function, {}, {}};
    for (const std::string& name : node.parameters) {
      node.parameter_slots.push_back(symbols.parameter(name));
    }
    const auto has_parameter = [&](const char* name) {
      return std::find(node.parameters.begin(), node.parameters.end(), name) !=
             node.parameters.end();
    };
    node.has_explicit_caller = has_parameter("caller");
    UndeclaredFinder finder({"caller", "kwargs", "varargs"});
    finder.body(node.body);
    const auto wants = [&](const char* name) {
      return finder.found().count(name) != 0 && !has_parameter(name);
    };
    if (wants("caller")) node.caller_slot = symbols.parameter("caller");
    if (wants("kwargs")) node.kwargs_slot = symbols.parameter("kwargs");
    if (wants("varargs")) node.varargs_slot = symbols.parameter("varargs");
    Collector collector(symbols);
    for (auto& value : node.defaults) collector.expression(*value);
    collector.body(node.body);
    node.scope = symbols.to_scope();
    for (auto& value : node.defaults) expression(*value, symbols, false);
    body(node.body, symbols, false);
    node.n_slots = function.n_slots;
  }
};

}  // namespace

void resolve_names(ParsedTemplate& parsed) {
  Binder().root(parsed);
}

}  // namespace millrace

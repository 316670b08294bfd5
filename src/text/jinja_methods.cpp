#include "text/jinja_methods.h"

#include <algorithm>
#include <array>

#include "text/jinja_access.h"
#include "text/jinja_loop.h"
#include "text/jinja_operators.h"
#include "text/jinja_string_methods.h"
#include "text/jinja_unicode.h"

namespace millrace {
namespace {

template <size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 5> kDictMethods = {"copy", "get", "items", "keys", "values"};
constexpr std::array<std::string_view, 3> kListMethods = {"copy", "count", "index"};
constexpr std::array<std::string_view, 2> kTupleMethods = {"count", "index"};
constexpr std::array<std::string_view, 2> kLoopMethods = {"cycle", "changed"};
constexpr std::array<std::string_view, 2> kCyclerMethods = {"next", "reset"};
constexpr std::array<std::string_view, 5> kListMutations = {
    "append", "clear", "extend", "insert", "pop"};
constexpr std::array<std::string_view, 3> kDictMutations = {"clear", "pop", "update"};

Value dict_method(Runtime& runtime,
                  const Value& self,
                  std::string_view name,
                  const Arguments& arguments) {
  const Dict& dict = self.as_dict();
  if (name == "get") {
    arguments.check("get", {"key", "default"}, 1);
    const Value& key = *arguments.get(0, "key");
    if (!is_hashable(key)) template_fail("unhashable type: {}", type_name(key));
    if (const Value* found = dict.find(key)) return *found;
    const Value* otherwise = arguments.get(1, "default");
    return otherwise != nullptr ? *otherwise : Value();
  }
  arguments.check(name, {});
  runtime.charge_bytes(dict.size() * sizeof(Value) * 4);
  if (name == "copy") {
    Dict copy;
    for (const auto& [key, value] : dict) copy.set(key, value);
    return Value(std::move(copy));
  }
  std::vector<Value> items;
  items.reserve(dict.size());
  for (const auto& [key, value] : dict) {
    items.push_back(name == "keys" ? key : name == "values" ? value : Value::tuple({key, value}));
  }
  return Value::view(std::move(items),
                     name == "keys"     ? "dict_keys"
                     : name == "values" ? "dict_values"
                                        : "dict_items");
}

Value sequence_method(Runtime& runtime,
                      const Value& self,
                      std::string_view name,
                      const Arguments& arguments) {
  if (name == "copy") {
    arguments.check("copy", {});
    return runtime.list(iterate(runtime, self));
  }
  arguments.check(name, {"value"}, 1);
  const Value& wanted = *arguments.get(0, "value");
  int64_t n = 0;
  for (size_t i = 0; i < self.items().size(); ++i) {
    runtime.step();
    if (!is_equal(runtime, self.items()[i], wanted)) continue;
    if (name == "index") return static_cast<int64_t>(i);
    ++n;
  }
  if (name == "index") template_fail("index: the value is not in the list");
  return n;
}

Value cycler_method(CyclerObject& cycler, std::string_view name, const Arguments& arguments) {
  arguments.check(name, {});
  if (name == "reset") {
    cycler.position = 0;
    return Value();
  }
  Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return current;
}

void update_dict(Runtime& runtime, Dict& dict, const Arguments& arguments) {
  if (arguments.positional.size() > 1) template_fail("update() takes at most one mapping");
  if (!arguments.positional.empty()) {
    const Value& other = arguments.positional[0];
    if (!other.is_dict()) template_fail("update() needs a mapping, got {}", type_name(other));
    runtime.charge_bytes(other.as_dict().size() * sizeof(Value) * 2);
    for (const auto& [key, value] : Value(other).as_dict()) dict.set(key, value);
  }
  for (const auto& [key, value] : arguments.named) dict.set(Value(key), value);
}

Value pop_item(Value& self, const Arguments& arguments) {
  if (self.is_dict()) {
    arguments.check("pop", {"key", "default"}, 1);
    const Value& key = *arguments.get(0, "key");
    const Value* found = is_hashable(key) ? self.as_dict().find(key) : nullptr;
    if (found == nullptr) {
      const Value* otherwise = arguments.get(1, "default");
      if (otherwise == nullptr) template_fail("pop: the key is not in the dict");
      return *otherwise;
    }
    Value removed = *found;
    self.mutable_dict().erase(key);
    return removed;
  }
  arguments.check("pop", {"index"});
  const auto size = static_cast<int64_t>(self.items().size());
  const Value* index = arguments.get(0, "index");
  int64_t at = index == nullptr ? -1 : to_integer(*index, "pop");
  if (at < 0) at += size;
  if (at < 0 || at >= size) template_fail("pop: index out of range");
  return self.remove(static_cast<size_t>(at));
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case ValueKind::kString:
      return find_string_method(name) != nullptr;
    case ValueKind::kDict:
      return is_one_of(name, kDictMethods) ||
             (!object.is_frozen() && is_one_of(name, kDictMutations));
    case ValueKind::kList:
      return is_one_of(name, kListMethods) ||
             (!object.is_frozen() && is_one_of(name, kListMutations));
    case ValueKind::kTuple:
      return is_one_of(name, kTupleMethods);
    case ValueKind::kView:
      return std::string_view(object.as_sequence().type_name) == kRangeTypeName &&
             is_one_of(name, kTupleMethods);
    case ValueKind::kObject:
      return (object.as_object().kind() == ObjectKind::kLoop && is_one_of(name, kLoopMethods)) ||
             (object.as_object().kind() == ObjectKind::kCycler && is_one_of(name, kCyclerMethods));
    default:
      return false;
  }
}

Value call_method(Runtime& runtime,
                  const Value& self,
                  std::string_view name,
                  Arguments& arguments) {
  runtime.step();
  if (self.is_string()) {
    if (const StringMethod method = find_string_method(name)) {
      Value result = method(runtime, self.as_text(), arguments);
      return self.is_markup() && result.is_string() ? Value::markup(result.as_text()) : result;
    }
  } else if (is_mutating_method(self, name)) {
    template_fail("{}() only works on a variable or an attribute of a namespace", name);
  } else if (has_method(self, name)) {
    if (self.is_dict()) return dict_method(runtime, self, name, arguments);
    if (self.is_sequence()) return sequence_method(runtime, self, name, arguments);
    if (auto* loop = object_if<LoopObject>(self, ObjectKind::kLoop)) {
      if (!arguments.named.empty()) template_fail("loop.{}() takes no named arguments", name);
      if (name == "cycle") return loop->cycle(arguments.positional);
      return loop->changed(runtime, std::move(arguments.positional));
    }
    if (auto* cycler = object_if<CyclerObject>(self, ObjectKind::kCycler)) {
      return cycler_method(*cycler, name, arguments);
    }
  }
  template_fail("{} has no method '{}'", type_name(self), name);
}

bool is_mutating_method(const Value& object, std::string_view name) {
  return (object.is_list() && is_one_of(name, kListMutations)) ||
         (object.is_dict() && is_one_of(name, kDictMutations));
}

Value call_mutating_method(Runtime& runtime,
                           Value& self,
                           std::string_view name,
                           Arguments& arguments) {
  if (self.is_frozen()) {
    template_fail("{}() is refused: this {} came with the request", name, type_name(self));
  }
  // Copying happens when others hold the container too.
  runtime.charge_bytes(self.is_list() ? 16 + self.items().size() / 4 : 16);
  Value result;
  if (name == "append") {
    arguments.check("append", {"object"}, 1);
    self.append(*arguments.get(0, "object"));
  } else if (name == "extend") {
    arguments.check("extend", {"iterable"}, 1);
    for (Value& item : iterate(runtime, *arguments.get(0, "iterable")))
      self.append(std::move(item));
  } else if (name == "insert") {
    arguments.check("insert", {"index", "object"}, 2);
    const auto size = static_cast<int64_t>(self.items().size());
    int64_t at = to_integer(*arguments.get(0, "index"), "insert");
    if (at < 0) at = std::max<int64_t>(0, at + size);
    self.insert(static_cast<size_t>(std::min(at, size)), *arguments.get(1, "object"));
  } else if (name == "update") {
    update_dict(runtime, self.mutable_dict(), arguments);
  } else if (name == "clear") {
    arguments.check("clear", {});
    self = self.is_list() ? Value::list({}) : Value(Dict());
  } else {
    result = pop_item(self, arguments);
  }
  if (self.depth() > Value::kMaxDepth)
    template_fail("values nest more than {} deep", Value::kMaxDepth);
  return result;
}

MarkedText replace_text(Runtime& runtime,
                        const MarkedText& text,
                        std::string_view from,
                        const MarkedText& to,
                        int64_t max_count) {
  runtime.charge_bytes(text.size());
  const std::string_view view = text.view();
  MarkedText out;
  size_t begin = 0;
  const auto may_go_on = [&max_count] { return max_count < 0 || max_count-- > 0; };
  if (from.empty()) {
    // Python puts the new text before every character and at the end.
    for (size_t at = 0, n = 0; may_go_on();) {
      runtime.charge_bytes(to.size());
      out.append(to);
      if (at >= view.size()) return out;
      code_point_at(view, at, &n);
      out.append(text, at, at + n);
      at += n;
      begin = at;
    }
  } else {
    for (size_t at = view.find(from); at != view.npos && may_go_on(); at = view.find(from, begin)) {
      runtime.charge_bytes(to.size() + 16);
      out.append(text, begin, at);
      out.append(to);
      begin = at + from.size();
    }
    if (begin == 0) return text;
  }
  out.append(text, begin, text.size());
  return out;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  // str.splitlines also ends lines at \v \f \x1c-\x1e \x85 U+2028 U+2029.
  const auto is_line_end = [](char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  std::vector<MarkedText> lines;
  size_t begin = 0;
  for (size_t at = 0, n = 0; at < text.size();) {
    const char32_t c = code_point_at(text.view(), at, &n);
    if (!is_line_end(c)) {
      at += n;
      continue;
    }
    const size_t end = at;
    at += n;
    if (c == '\r' && at < text.size() && text.text()[at] == '\n') ++at;
    lines.push_back(text.slice(begin, keep_ends ? at : end));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.slice(begin, text.size()));
  return lines;
}

MarkedText pad_text(
    Runtime& runtime, const MarkedText& text, int64_t width, char align, std::string_view fill) {
  const auto length = static_cast<int64_t>(count_code_points(text.view()));
  if (width <= length) return text;
  const int64_t n_fill = width - length;
  runtime.charge_bytes(text.size());
  runtime.charge_bytes(static_cast<uint64_t>(n_fill) * fill.size());
  int64_t n_left = align == '>' ? n_fill : 0;
  // str.center puts the odd character left when the width is odd.
  if (align == '^') n_left = n_fill / 2 + (n_fill & width & 1);
  std::string left;
  std::string right;
  for (int64_t i = 0; i < n_fill; ++i) (i < n_left ? left : right) += fill;
  MarkedText out(std::move(left));
  out.append(text);
  out.append(right, false);
  return out;
}

}  // namespace millrace

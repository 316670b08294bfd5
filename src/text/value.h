#pragma once
// The dynamic value of JSON documents and of chat templates: Python's data model, without pointers
// into an interpreter. Containers are shared and copied when written to, so a Value is a cheap
// handle; no value can contain itself. Different threads may read the same value.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/marked_text.h"

namespace millrace {

class Dict;
class Value;
struct Sequence;
class TemplateObject;  // namespaces, macros, loops: text/jinja_object.h

enum class ValueKind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kDouble,
  kString,
  kList,
  kTuple,
  kView,  // range(), dict.keys(), dict.values(), dict.items(): a sequence that prints its origin
  kDict,
  kObject,
};

class Value {
 public:
  // Containers nest at most this deep; building a deeper one is an error where it can come from
  // outside (JSON, templates), so recursion over a value is bounded.
  static constexpr int kMaxDepth = 128;

  Value() = default;  // none
  Value(std::nullptr_t) {}
  Value(bool value) : data_(value) {}
  Value(int value) : data_(int64_t{value}) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::string text);
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(MarkedText text);
  Value(Dict dict);
  explicit Value(std::shared_ptr<TemplateObject> object) : data_(std::move(object)) {}

  static Value undefined(std::string_view name);  // name only serves error messages
  static Value missing();  // an undefined without name: what a variable is before its first value
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value named_tuple(std::vector<Value> items, const char* type_name);
  static Value view(std::vector<Value> items, const char* type_name);  // "dict_items", "range"
  static Value dict(std::initializer_list<std::pair<std::string_view, Value>> entries);
  static Value markup(MarkedText text);  // what the filters safe and escape return

  ValueKind kind() const;
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_missing() const {
    const auto* undefined = std::get_if<Undefined>(&data_);
    return undefined != nullptr && undefined->name == nullptr;
  }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_double() const { return std::holds_alternative<double>(data_); }
  bool is_string() const { return std::holds_alternative<StringRef>(data_); }
  bool is_sequence() const {
    return std::holds_alternative<SequenceRef>(data_);
  }  // list, tuple, view
  bool is_list() const { return kind() == ValueKind::kList; }
  bool is_tuple() const { return kind() == ValueKind::kTuple; }
  bool is_dict() const { return std::holds_alternative<DictRef>(data_); }
  bool is_object() const { return std::holds_alternative<ObjectRef>(data_); }
  bool is_markup() const;

  // Each of these requires the kind it names.
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return std::get<int64_t>(data_); }
  double as_double() const { return std::get<double>(data_); }
  const MarkedText& as_text() const;
  const std::string& as_string() const { return as_text().text(); }
  std::span<const Value> items() const;  // of a sequence
  const Sequence& as_sequence() const { return *std::get<SequenceRef>(data_); }
  const Dict& as_dict() const { return *std::get<DictRef>(data_); }
  TemplateObject& as_object() const { return *std::get<ObjectRef>(data_); }
  std::string_view undefined_name() const;

  // Copy on write: what others hold stays as it is. The caller keeps depth() within kMaxDepth.
  void append(Value item);                // to a list
  void insert(size_t index, Value item);  // into a list, index <= size
  Value remove(size_t index);             // from a list
  Dict& mutable_dict();

  // For documents: the value of a string key of a dict, null when it is no dict or has no such key.
  const Value* find(std::string_view key) const;
  std::string_view string_or(std::string_view key, std::string_view otherwise) const;

  int depth() const;        // 0 for scalars, 1 + deepest element for containers
  uint64_t weight() const;  // about the bytes that a deep copy would take; saturates
  bool is_frozen() const;   // container that came from a request: templates may not change it

  // Deep copy in which every string, key and value, is marked as input and containers are frozen.
  Value as_input() const;

  // Identity of the shared payload, null for scalars.
  const void* identity() const;

 private:
  struct None {};
  struct Undefined {
    std::shared_ptr<const std::string> name;
  };
  struct StringData;
  using StringRef = std::shared_ptr<const StringData>;
  using SequenceRef = std::shared_ptr<Sequence>;
  using DictRef = std::shared_ptr<Dict>;
  using ObjectRef = std::shared_ptr<TemplateObject>;

  std::variant<None, Undefined, bool, int64_t, double, StringRef, SequenceRef, DictRef, ObjectRef>
      data_;
};

// What stands behind lists, tuples and views.
struct Sequence {
  std::vector<Value> items;
  ValueKind kind = ValueKind::kList;
  const char* type_name = "list";
  bool is_frozen = false;
  int depth = 1;
  uint64_t weight = 0;

  void add_weight(const Value& item);
};

// Insertion-ordered map with Python's key equality (1 == 1.0 == True). Keys are scalars, strings
// or tuples of those: is_hashable().
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  const Value* find(std::string_view key) const;
  const Value* find(const std::string& key) const { return find(std::string_view(key)); }
  const Value* find(const char* key) const { return find(std::string_view(key)); }
  const Value* find(const Value& key) const;
  void set(Value key, Value value);  // replaces in place or appends
  bool erase(const Value& key);
  int depth() const { return depth_; }
  uint64_t weight() const { return weight_; }

 private:
  friend class Value;
  static constexpr size_t kIndexFrom = 12;  // entries; below that a scan is faster

  template <class Matches>
  size_t position(uint64_t hash, Matches matches) const;
  void add_to_index(size_t at);
  void rebuild_index();

  std::vector<Entry> entries_;
  std::vector<uint32_t> index_;  // open addressing, position + 1, 0 = free; empty for small dicts
  bool is_frozen_ = false;
  int depth_ = 1;
  uint64_t weight_ = 0;
};

// Python's ==. Objects are equal when they are the same object.
bool equal(const Value& a, const Value& b);
bool is_hashable(const Value& value);
uint64_t hash_value(const Value& key);
bool is_truthy(const Value& value);
const char* type_name(const Value& value);  // Python's: "str", "NoneType"

// Python's str() and repr(): what a template prints, and what it prints inside containers.
MarkedText to_text(const Value& value);
MarkedText to_repr(const Value& value);
std::string format_double(double value);  // repr(float): shortest digits that read back, "1e+20"

// json.dumps. Values that JSON cannot hold are an error. Marks of strings stay.
struct JsonStyle {
  int indent = -1;  // < 0: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  std::string indent_text;  // used instead of indent spaces when not empty
  bool ensure_ascii = false;
  bool sort_keys = false;
};
Result<MarkedText> dump_json(const Value& value, const JsonStyle& style = {});

// json.loads for UTF-8 documents. Integers beyond int64 become doubles, lone surrogates U+FFFD; a
// repeated key keeps its last value. Errors give the byte offset.
Result<Value> parse_json(std::string_view document);

}  // namespace millrace

#pragma once
// Values that live only while a template renders: namespaces, macros, loops, bound methods,
// one-shot iterators. They belong to the render that made them and to its thread.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/value.h"

namespace millrace {

enum class ObjectKind : uint8_t {
  kNamespace,
  kMacro,
  kLoop,
  kMethod,    // 'text'.strip without its call
  kFunction,  // raise_exception, range...
  kIterator,
  kJoiner,
  kCycler,
  kTokenIds,
};

class TemplateObject {
 public:
  virtual ~TemplateObject() = default;
  ObjectKind kind() const { return kind_; }
  const char* type_name() const { return type_name_; }
  int depth() const { return depth_; }  // as of a container of what it holds for good

 protected:
  TemplateObject(ObjectKind kind, const char* type_name) : kind_(kind), type_name_(type_name) {}
  void contain(const Value& value) { depth_ = std::max(depth_, 1 + value.depth()); }

 private:
  ObjectKind kind_;
  const char* type_name_;
  int depth_ = 0;
};

// Attributes may hold the namespace itself, so the interpreter empties every namespace at the end.
struct NamespaceObject : TemplateObject {
  NamespaceObject() : TemplateObject(ObjectKind::kNamespace, "Namespace") {}
  Dict attributes;
};

struct MethodObject : TemplateObject {
  MethodObject(Value self, std::string name)
      : TemplateObject(ObjectKind::kMethod, "builtin_function_or_method"),
        self(std::move(self)),
        name(std::move(name)) {
    contain(this->self);
  }
  Value self;
  std::string name;
};

// What Python's generators and iterators are: no length, no index, consumed once, always truthy.
struct IteratorObject : TemplateObject {
  IteratorObject(std::vector<Value> items, const char* type_name)
      : TemplateObject(ObjectKind::kIterator, type_name), items(std::move(items)) {
    for (const Value& item : this->items) contain(item);
  }
  std::vector<Value> items;
  size_t next = 0;
};

struct JoinerObject : TemplateObject {
  explicit JoinerObject(Value separator)
      : TemplateObject(ObjectKind::kJoiner, "Joiner"), separator(std::move(separator)) {
    contain(this->separator);
  }
  Value separator;
  bool was_used = false;
};

struct CyclerObject : TemplateObject {
  explicit CyclerObject(std::vector<Value> items)
      : TemplateObject(ObjectKind::kCycler, "Cycler"), items(std::move(items)) {
    for (const Value& item : this->items) contain(item);
  }
  std::vector<Value> items;
  size_t position = 0;
};

// The object behind a value when it is of this kind, else null.
template <class Object>
Object* object_if(const Value& value, ObjectKind kind) {
  if (!value.is_object() || value.as_object().kind() != kind) return nullptr;
  return static_cast<Object*>(&value.as_object());
}

}  // namespace millrace

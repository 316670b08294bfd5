#pragma once
// Attributes, subscripts, slices and iteration of values, as Jinja's sandbox allows them.

#include <optional>

#include "text/jinja_runtime.h"

namespace millrace {

// object.name: methods first, then keys. otherwise: what is given when there is neither.
Value get_attribute(Runtime& runtime,
                    const Value& object,
                    const std::string& name,
                    const Value& otherwise);
// object[key]: items first, then methods.
Value get_item(Runtime& runtime, const Value& object, const Value& key);

bool has_slices(const Value& object);  // strings, lists, tuples, ranges: they have indices too
// object[start:stop:step]; null bounds are absent ones.
Value get_slice(Runtime& runtime,
                const Value& object,
                const Value& start,
                const Value& stop,
                const Value& step);

bool is_iterable(const Value& value);
// All items: characters of a string, keys of a dict; drains an iterator. Fails for other types.
std::vector<Value> iterate(Runtime& runtime, const Value& value);
// As a sequence to walk by index: lists as they are, everything else iterated.
Value to_sequence(Runtime& runtime, const Value& value);
std::optional<size_t> length_of(const Value& value);  // nullopt: has none

// Items of a map(attribute=...) path: "a.0.b" or an integer.
class AttributePath {
 public:
  explicit AttributePath(const Value* path);  // null or none: the value itself
  Value get(Runtime& runtime, const Value& value, const Value* otherwise = nullptr) const;

 private:
  std::vector<Value> parts_;
};

}  // namespace millrace

#include "text/jinja_access.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "text/jinja_loop.h"
#include "text/jinja_methods.h"
#include "text/jinja_unicode.h"

namespace millrace {
namespace {

bool is_ascii(const std::string& text) {
  return count_code_points(text) == text.size();
}

Value character_at(const MarkedText& text, int64_t index) {
  const std::string& bytes = text.text();
  if (is_ascii(bytes)) {
    const auto at = static_cast<size_t>(index);
    return text.slice(at, at + 1);
  }
  const size_t begin = byte_offset(bytes, static_cast<size_t>(index));
  size_t n = 0;
  code_point_at(bytes, begin, &n);
  return text.slice(begin, begin + n);
}

std::optional<Value> element(Runtime& runtime, const Value& object, int64_t index) {
  const auto size = static_cast<int64_t>(*length_of(object));
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  if (object.is_sequence()) return object.items()[static_cast<size_t>(index)];
  runtime.charge_bytes(object.as_text().size() / 16);
  return character_at(object.as_text(), index);
}

struct Indices {
  int64_t start;
  int64_t step;
  int64_t count;
};

// Python's slice.indices.
Indices slice_indices(int64_t size, const Value& start, const Value& stop, const Value& step) {
  const int64_t by = step.is_none() ? 1 : to_integer(step, "slice");
  if (by == 0) template_fail("slice step cannot be zero");
  const auto bound = [&](const Value& value, int64_t otherwise) {
    if (value.is_none()) return otherwise;
    int64_t at = to_integer(value, "slice");
    if (at < 0) at = std::max<int64_t>(at + size, by < 0 ? -1 : 0);
    return std::min(at, by < 0 ? size - 1 : size);
  };
  const int64_t from = bound(start, by < 0 ? size - 1 : 0);
  const int64_t to = bound(stop, by < 0 ? -1 : size);
  int64_t count = 0;
  if (by > 0 && from < to) count = (to - from - 1) / by + 1;
  if (by < 0 && from > to) count = (to - from + 1) / by + 1;
  return {from, by, count};
}

Value slice_text(Runtime& runtime, const Value& object, const Indices& indices) {
  const MarkedText& text = object.as_text();
  runtime.charge_bytes(text.size());
  const std::string& bytes = text.text();
  MarkedText out;
  if (indices.step == 1) {
    const bool simple = is_ascii(bytes);
    const auto first = static_cast<size_t>(indices.start);
    const auto last = static_cast<size_t>(indices.start + indices.count);
    if (indices.count > 0) {
      out = text.slice(simple ? first : byte_offset(bytes, first),
                       simple ? last : byte_offset(bytes, last));
    }
  } else {
    std::vector<size_t> offsets;
    for (size_t at = 0, n = 0; at < bytes.size(); at += n) {
      offsets.push_back(at);
      code_point_at(bytes, at, &n);
    }
    offsets.push_back(bytes.size());
    for (int64_t i = 0; i < indices.count; ++i) {
      const auto at = static_cast<size_t>(indices.start + i * indices.step);
      out.append(text, offsets[at], offsets[at + 1]);
    }
  }
  return object.is_markup() ? Value::markup(std::move(out)) : Value(std::move(out));
}

Value object_attribute(Runtime& runtime,
                       const Value& object,
                       const std::string& name,
                       const Value& otherwise) {
  if (const auto* space = object_if<NamespaceObject>(object, ObjectKind::kNamespace)) {
    const Value* found = space->attributes.find(name);
    return found != nullptr ? *found : otherwise;
  }
  if (auto* loop = object_if<LoopObject>(object, ObjectKind::kLoop)) {
    return loop->attribute(runtime, object, name, otherwise);
  }
  if (const auto* cycler = object_if<CyclerObject>(object, ObjectKind::kCycler)) {
    if (name == "current") return cycler->items[cycler->position];
  }
  if (has_method(object, name)) return Value(std::make_shared<MethodObject>(object, name));
  return otherwise;
}

}  // namespace

Value get_attribute(Runtime& runtime,
                    const Value& object,
                    const std::string& name,
                    const Value& otherwise) {
  require_defined(object);
  if (object.is_dict()) {
    if (has_method(object, name)) return Value(std::make_shared<MethodObject>(object, name));
    const Value* found = object.as_dict().find(name);
    return found != nullptr ? *found : otherwise;
  }
  if (object.is_object()) return object_attribute(runtime, object, name, otherwise);
  if (object.is_tuple() && std::string_view(object.as_sequence().type_name) == kGroupTypeName) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  if (has_method(object, name)) return Value(std::make_shared<MethodObject>(object, name));
  return otherwise;
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  require_defined(object);
  if (object.is_dict() && is_hashable(key)) {
    if (const Value* found = object.as_dict().find(key)) return *found;
  }
  if (has_slices(object) && (key.is_int() || key.is_bool())) {
    if (auto found = element(runtime, object, to_integer(key, "index"))) return *found;
  }
  const Value undefined = Value::undefined(key.is_string() ? key.as_string() : to_text(key).text());
  if (!key.is_string()) return undefined;
  if (object.is_dict()) {
    return has_method(object, key.as_string())
               ? Value(std::make_shared<MethodObject>(object, key.as_string()))
               : undefined;
  }
  return get_attribute(runtime, object, key.as_string(), undefined);
}

bool has_slices(const Value& object) {
  return object.is_list() || object.is_tuple() || object.is_string() ||
         (object.is_sequence() &&
          std::string_view(object.as_sequence().type_name) == kRangeTypeName);
}

Value get_slice(Runtime& runtime,
                const Value& object,
                const Value& start,
                const Value& stop,
                const Value& step) {
  require_defined(object);
  const bool has_slices =
      object.is_list() || object.is_tuple() || object.is_string() ||
      (object.is_sequence() && std::string_view(object.as_sequence().type_name) == kRangeTypeName);
  if (!has_slices) template_fail("{} cannot be sliced", type_name(object));
  const Indices indices =
      slice_indices(static_cast<int64_t>(*length_of(object)), start, stop, step);
  if (object.is_string()) return slice_text(runtime, object, indices);
  runtime.charge_bytes(static_cast<uint64_t>(indices.count) * sizeof(Value));
  std::vector<Value> items;
  for (int64_t i = 0; i < indices.count; ++i) {
    items.push_back(object.items()[static_cast<size_t>(indices.start + i * indices.step)]);
  }
  if (object.is_tuple()) return Value::tuple(std::move(items));
  if (object.is_list()) return Value::list(std::move(items));
  return Value::view(std::move(items), kRangeTypeName);
}

bool is_iterable(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is_dict() || value.is_undefined() ||
         (value.is_object() && (value.as_object().kind() == ObjectKind::kIterator ||
                                value.as_object().kind() == ObjectKind::kLoop));
}

std::optional<size_t> length_of(const Value& value) {
  if (value.is_string()) return count_code_points(value.as_string());
  if (value.is_sequence()) return value.items().size();
  if (value.is_dict()) return value.as_dict().size();
  if (value.is_undefined()) return 0;
  return std::nullopt;
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (value.is_sequence()) {
    runtime.charge_bytes(value.items().size() * sizeof(Value));
    items.assign(value.items().begin(), value.items().end());
  } else if (value.is_dict()) {
    runtime.charge_bytes(value.as_dict().size() * sizeof(Value));
    for (const auto& [key, item] : value.as_dict()) items.push_back(key);
  } else if (value.is_string()) {
    const MarkedText& text = value.as_text();
    runtime.charge_bytes(text.size() * 64);  // one string value for each character
    for (size_t at = 0, n = 0; at < text.size(); at += n) {
      code_point_at(text.text(), at, &n);
      items.emplace_back(MarkedText(text.text().substr(at, n), text.is_input_at(at)));
    }
  } else if (auto* iterator = object_if<IteratorObject>(value, ObjectKind::kIterator)) {
    runtime.charge_bytes(iterator->items.size() * sizeof(Value));
    items.assign(iterator->items.begin() + static_cast<ptrdiff_t>(iterator->next),
                 iterator->items.end());
    iterator->next = iterator->items.size();
  } else if (!value.is_undefined()) {
    template_fail("{} cannot be iterated", type_name(value));
  }
  return items;
}

Value to_sequence(Runtime& runtime, const Value& value) {
  if (value.is_sequence()) return value;
  return Value::list(iterate(runtime, value));
}

AttributePath::AttributePath(const Value* path) {
  if (path == nullptr || path->is_none()) return;
  if (!path->is_string()) {
    parts_.push_back(*path);
    return;
  }
  const std::string& text = path->as_string();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && part[0] != '-' && parsed.ec == std::errc() &&
                          parsed.ptr == part.data() + part.size();
    parts_.push_back(is_index ? Value(index) : Value(part));
    begin = end + 1;
  }
}

Value AttributePath::get(Runtime& runtime, const Value& value, const Value* otherwise) const {
  Value item = value;
  for (const Value& part : parts_) {
    runtime.step();
    item = get_item(runtime, item, part);
    if (otherwise != nullptr && !otherwise->is_none() && item.is_undefined()) item = *otherwise;
  }
  return item;
}

}  // namespace millrace

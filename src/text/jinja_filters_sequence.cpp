// Filters on sequences and mappings. What Jinja does lazily is done at once here; the results are
// one-shot iterators all the same, since templates can tell.
#include <algorithm>

#include "text/jinja_access.h"
#include "text/jinja_filters.h"
#include "text/jinja_loop.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_tests.h"
#include "text/jinja_unicode.h"

namespace millrace {
namespace {

Value ignore_case(Value value) {
  return value.is_string() ? Value(map_case(value.as_text(), CaseMapping::kLower)) : value;
}

bool is_set(const Value* value) {
  return value != nullptr && is_truthy(*value);
}

// The key that sort, min, max, unique and groupby compare.
class SortKey {
 public:
  SortKey(const Value* attribute, bool is_case_sensitive)
      : path_(attribute), is_case_sensitive_(is_case_sensitive) {}
  Value get(Runtime& runtime, const Value& item) const {
    runtime.charge_bytes(item.is_string() ? item.weight() : 1);
    Value key = path_.get(runtime, item);
    return is_case_sensitive_ ? key : ignore_case(std::move(key));
  }

 private:
  AttributePath path_;
  bool is_case_sensitive_;
};

struct Keyed {
  Value key;
  Value item;
};

void sort_keyed(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? is_less(runtime, b.key, a.key) : is_less(runtime, a.key, b.key);
  });
}

Value length(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("length", {});
  if (auto* loop = object_if<LoopObject>(operand, ObjectKind::kLoop)) {
    return loop->attribute(runtime, operand, "length", Value());
  }
  if (operand.is_string()) runtime.charge_bytes(operand.as_text().size() / 16);
  const std::optional<size_t> n = length_of(operand);
  if (!n) template_fail("length: {} has no length", type_name(operand));
  return static_cast<int64_t>(*n);
}

Value list(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("list", {});
  return runtime.list(iterate(runtime, operand));
}

Value first(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("first", {});
  if (auto* iterator = object_if<IteratorObject>(operand, ObjectKind::kIterator)) {
    if (iterator->next < iterator->items.size()) return iterator->items[iterator->next++];
    return Value::undefined("first item");
  }
  if (operand.is_string() && !operand.as_text().empty()) {
    size_t n = 0;
    code_point_at(operand.as_string(), 0, &n);
    return Value(operand.as_text().slice(0, n));
  }
  const std::vector<Value> items = iterate(runtime, operand);
  return items.empty() ? Value::undefined("first item") : items.front();
}

Value last(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("last", {});
  if (!length_of(operand)) template_fail("last: {} cannot be reversed", type_name(operand));
  if (operand.is_string() && !operand.as_text().empty()) {
    const size_t size = operand.as_text().size();
    return Value(operand.as_text().slice(previous_code_point(operand.as_string(), size), size));
  }
  const std::vector<Value> items = iterate(runtime, operand);
  return items.empty() ? Value::undefined("last item") : items.back();
}

Value reverse(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("reverse", {});
  if (operand.is_string()) {
    Value reversed = get_slice(runtime, operand, Value(), Value(), Value(-1));
    return reversed;
  }
  std::vector<Value> items = iterate(runtime, operand);
  std::reverse(items.begin(), items.end());
  const bool has_reverse_iterator = length_of(operand).has_value();
  return has_reverse_iterator ? runtime.iterator(std::move(items), "list_reverseiterator")
                              : runtime.list(std::move(items));
}

Value join(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("join", {"d", "attribute"});
  const Value* separator = arguments.get(0, "d");
  const Value* attribute = arguments.get(1, "attribute");
  const bool has_attribute = attribute != nullptr && is_truthy(*attribute);
  const AttributePath path(has_attribute ? attribute : nullptr);
  const MarkedText between = separator == nullptr ? MarkedText() : to_text(*separator);
  MarkedText out;
  bool is_first = true;
  for (const Value& item : iterate(runtime, operand)) {
    const Value value = path.get(runtime, item);
    runtime.charge_bytes(value.weight() + between.size());
    if (!is_first) out.append(between);
    is_first = false;
    out.append(to_text(value));
  }
  return Value(std::move(out));
}

Value sort(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("sort", {"reverse", "case_sensitive", "attribute"});
  const Value* attribute = arguments.get(2, "attribute");
  const bool is_case_sensitive = is_set(arguments.get(1, "case_sensitive"));
  // "a,b.c" sorts by several attributes.
  std::vector<SortKey> keys;
  if (attribute != nullptr && attribute->is_string()) {
    const std::string& names = attribute->as_string();
    for (size_t begin = 0; begin <= names.size();) {
      const size_t end = std::min(names.find(',', begin), names.size());
      const Value name(names.substr(begin, end - begin));
      keys.emplace_back(&name, is_case_sensitive);
      begin = end + 1;
    }
  } else {
    keys.emplace_back(attribute, is_case_sensitive);
  }
  std::vector<Keyed> items;
  for (Value& item : iterate(runtime, operand)) {
    std::vector<Value> parts;
    for (const SortKey& key : keys) parts.push_back(key.get(runtime, item));
    items.push_back({Value::list(std::move(parts)), std::move(item)});
  }
  sort_keyed(runtime, items, is_set(arguments.get(0, "reverse")));
  std::vector<Value> sorted;
  for (Keyed& keyed : items) sorted.push_back(std::move(keyed.item));
  return runtime.list(std::move(sorted));
}

Value dictsort(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("dictsort", {"case_sensitive", "by", "reverse"});
  require_defined(operand);
  if (!operand.is_dict()) template_fail("dictsort: expected a mapping, got {}", type_name(operand));
  const Value* by = arguments.get(1, "by");
  const std::string by_name = by == nullptr ? "key" : to_text(*by).text();
  if (by_name != "key" && by_name != "value") template_fail("dictsort: by must be key or value");
  const SortKey sort_key(nullptr, is_set(arguments.get(0, "case_sensitive")));
  std::vector<Keyed> items;
  for (const auto& [key, value] : operand.as_dict()) {
    items.push_back(
        {sort_key.get(runtime, by_name == "key" ? key : value), Value::tuple({key, value})});
  }
  sort_keyed(runtime, items, is_set(arguments.get(2, "reverse")));
  std::vector<Value> sorted;
  for (Keyed& keyed : items) sorted.push_back(std::move(keyed.item));
  return runtime.list(std::move(sorted));
}

template <bool finds_max>
Value extreme(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("min", {"case_sensitive", "attribute"});
  const SortKey key(arguments.get(1, "attribute"), is_set(arguments.get(0, "case_sensitive")));
  std::vector<Value> items = iterate(runtime, operand);
  if (items.empty()) return Value::undefined("aggregated item");
  size_t best = 0;
  Value best_key = key.get(runtime, items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value item_key = key.get(runtime, items[i]);
    const bool is_better =
        finds_max ? is_less(runtime, best_key, item_key) : is_less(runtime, item_key, best_key);
    if (!is_better) continue;
    best = i;
    best_key = std::move(item_key);
  }
  return items[best];
}

Value unique(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("unique", {"case_sensitive", "attribute"});
  const SortKey key(arguments.get(1, "attribute"), is_set(arguments.get(0, "case_sensitive")));
  Dict seen;
  std::vector<Value> items;
  for (Value& item : iterate(runtime, operand)) {
    Value item_key = key.get(runtime, item);
    if (!is_hashable(item_key)) template_fail("unhashable type: {}", type_name(item_key));
    if (seen.find(item_key) != nullptr) continue;
    seen.set(std::move(item_key), Value());
    items.push_back(std::move(item));
  }
  return runtime.iterator(std::move(items));
}

Value sum(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("sum", {"attribute", "start"});
  const AttributePath path(arguments.get(0, "attribute"));
  const Value* start = arguments.get(1, "start");
  Value total = start == nullptr ? Value(0) : *start;
  if (total.is_string()) template_fail("sum() cannot add strings, use join");
  for (const Value& item : iterate(runtime, operand)) {
    total = apply_binary(runtime, Operator::kAdd, total, path.get(runtime, item));
  }
  return total;
}

Value items(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("items", {});
  if (operand.is_undefined()) return runtime.iterator({});
  if (!operand.is_dict()) template_fail("items: expected a mapping, got {}", type_name(operand));
  std::vector<Value> pairs;
  for (const auto& [key, value] : operand.as_dict()) pairs.push_back(Value::tuple({key, value}));
  return runtime.iterator(std::move(pairs));
}

// The arguments after the first n.
Arguments rest_of(const Arguments& arguments, size_t n) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(n),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value map_attribute(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  const AttributePath path(arguments.get(0, "attribute"));
  const Value* otherwise = arguments.get(1, "default");
  for (const auto& [name, value] : arguments.named) {
    if (name != "attribute" && name != "default") {
      template_fail("map() has no argument named '{}'", name);
    }
  }
  std::vector<Value> mapped;
  for (const Value& item : iterate(runtime, operand)) {
    mapped.push_back(path.get(runtime, item, otherwise));
  }
  return runtime.iterator(std::move(mapped));
}

Value map(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  const bool is_empty = !is_truthy(operand);
  if (is_empty) return runtime.iterator({});
  if (arguments.positional.empty() && arguments.get(0, "attribute") != nullptr) {
    return map_attribute(runtime, operand, arguments);
  }
  if (arguments.positional.empty()) template_fail("map() needs the name of a filter");
  const std::string name = to_text(arguments.positional[0]).text();
  const FilterEntry* filter = find_filter(name);
  if (filter == nullptr) template_fail("no filter named '{}'", name);
  const Arguments rest = rest_of(arguments, 1);
  std::vector<Value> mapped;
  for (const Value& item : iterate(runtime, operand)) {
    runtime.step();
    mapped.push_back(filter->function(runtime, item, rest));
  }
  return runtime.iterator(std::move(mapped));
}

template <bool wanted, bool has_attribute>
Value select(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  if (!is_truthy(operand)) return runtime.iterator({});
  constexpr size_t n_path = has_attribute ? 1 : 0;
  if (arguments.positional.size() < n_path) template_fail("the name of an attribute is missing");
  const AttributePath path(has_attribute ? &arguments.positional[0] : nullptr);
  const TestEntry* test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > n_path) {
    const std::string name = to_text(arguments.positional[n_path]).text();
    test = find_test(name);
    if (test == nullptr) template_fail("no test named '{}'", name);
    rest = rest_of(arguments, n_path + 1);
  }
  std::vector<Value> selected;
  for (Value& item : iterate(runtime, operand)) {
    runtime.step();
    const Value value = path.get(runtime, item);
    const bool passes = test != nullptr ? test->function(runtime, value, rest) : is_truthy(value);
    if (passes == wanted) selected.push_back(std::move(item));
  }
  return runtime.iterator(std::move(selected));
}

Value batch(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("batch", {"linecount", "fill_with"}, 1);
  const int64_t size = to_integer(*arguments.get(0, "linecount"), "batch");
  const Value* fill = arguments.get(1, "fill_with");
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (Value& item : iterate(runtime, operand)) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(Value::list(std::exchange(batch, {})));
    }
    batch.push_back(std::move(item));
  }
  while (!batch.empty() && fill != nullptr && !fill->is_none() &&
         static_cast<int64_t>(batch.size()) < size) {
    runtime.charge_bytes(sizeof(Value));
    batch.push_back(*fill);
  }
  if (!batch.empty()) batches.push_back(Value::list(std::move(batch)));
  return runtime.iterator(std::move(batches));
}

Value slice(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("slice", {"slices", "fill_with"}, 1);
  const int64_t n_slices = to_integer(*arguments.get(0, "slices"), "slice");
  const Value* fill = arguments.get(1, "fill_with");
  const std::vector<Value> items = iterate(runtime, operand);
  if (n_slices == 0) template_fail("slice: the number of slices is zero");
  const auto n_items = static_cast<int64_t>(items.size());
  const int64_t per_slice = n_slices < 0 ? 0 : n_items / n_slices;
  const int64_t n_longer = n_slices < 0 ? 0 : n_items % n_slices;
  std::vector<Value> slices;
  int64_t at = 0;
  for (int64_t i = 0; i < n_slices; ++i) {
    runtime.charge_bytes(sizeof(Value));
    const int64_t n = per_slice + (i < n_longer ? 1 : 0);
    std::vector<Value> part(items.begin() + at, items.begin() + at + n);
    if (fill != nullptr && !fill->is_none() && i >= n_longer) part.push_back(*fill);
    slices.push_back(Value::list(std::move(part)));
    at += n;
  }
  return runtime.iterator(std::move(slices));
}

Value groupby(Runtime& runtime, const Value& operand, const Arguments& arguments) {
  arguments.check("groupby", {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(arguments.get(0, "attribute"));
  const Value* otherwise = arguments.get(1, "default");
  const bool is_case_sensitive = is_set(arguments.get(2, "case_sensitive"));
  std::vector<Keyed> items;
  for (Value& item : iterate(runtime, operand)) {
    Value key = path.get(runtime, item, otherwise);
    items.push_back({is_case_sensitive ? key : ignore_case(key), std::move(item)});
  }
  sort_keyed(runtime, items, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size();) {
    size_t end = begin;
    std::vector<Value> members;
    while (end < items.size() && is_equal(runtime, items[begin].key, items[end].key)) {
      members.push_back(items[end++].item);
    }
    if (end == begin) members.push_back(items[end++].item);  // NaN is not even equal to itself
    // Without case the group is named as its first member writes it.
    Value name = path.get(runtime, members.front(), otherwise);
    groups.push_back(
        Value::named_tuple({std::move(name), Value::list(std::move(members))}, kGroupTypeName));
    begin = end;
  }
  return runtime.list(std::move(groups));
}

constexpr FilterEntry kFilters[] = {
    {"batch", batch},
    {"count", length},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"reverse", reverse},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slice},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

const FilterEntry* find_sequence_filter(std::string_view name) {
  const auto found = std::find_if(
      std::begin(kFilters), std::end(kFilters), [&](const auto& f) { return f.name == name; });
  return found != std::end(kFilters) ? found : nullptr;
}

}  // namespace millrace

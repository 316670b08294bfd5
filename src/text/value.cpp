#include "text/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/sip_hash.h"
#include "text/jinja_object.h"

namespace millrace {
namespace {

constexpr uint64_t kMaxWeight = uint64_t{1} << 60;
constexpr uint64_t kScalarWeight = 16;  // bytes

uint64_t saturating_add(uint64_t a, uint64_t b) {
  return std::min(a + b, kMaxWeight);
}

// Numbers compare and hash alike across bool, int and double.
bool is_number(const Value& value) {
  return value.is_bool() || value.is_int() || value.is_double();
}

bool is_integral(const Value& value) {
  return value.is_bool() || value.is_int();
}

int64_t integer_of(const Value& value) {
  return value.is_bool() ? int64_t{value.as_bool()} : value.as_int();
}

bool equal_numbers(const Value& a, const Value& b) {
  if (is_integral(a) && is_integral(b)) return integer_of(a) == integer_of(b);
  if (a.is_double() && b.is_double()) return a.as_double() == b.as_double();
  const double number = a.is_double() ? a.as_double() : b.as_double();
  const int64_t integer = a.is_double() ? integer_of(b) : integer_of(a);
  // 2^63 is exact as a double, int64 max is not.
  if (!(number >= -0x1p63 && number < 0x1p63) || number != std::floor(number)) return false;
  return static_cast<int64_t>(number) == integer;
}

bool equal_sequences(const Value& a, const Value& b) {
  const Sequence& left = a.as_sequence();
  const Sequence& right = b.as_sequence();
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  if (left.kind == ValueKind::kView && std::strcmp(left.type_name, right.type_name) != 0) {
    return false;
  }
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.begin(), a.end(), [&](const Dict::Entry& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

// The keys of a JSON object come from outside: with a hash that is known, a client could choose
// thousands that all fall into one place. So every process has a key of its own.
uint64_t hash_text(std::string_view text) {
  static const SipKey key = random_sip_key();
  return sip_hash(key, text);
}

bool is_whole_input(const MarkedText& text) {
  const auto& ranges = text.input_ranges();
  return ranges.size() == 1 && ranges[0].begin == 0 && ranges[0].end == text.size();
}

uint64_t hash_integer(int64_t value) {
  uint64_t mixed = static_cast<uint64_t>(value) * 0x9E3779B97F4A7C15ull;
  return mixed ^ (mixed >> 32);
}

}  // namespace

struct Value::StringData {
  MarkedText text;
  bool is_markup = false;
};

Value::Value(std::string text)
    : data_(std::make_shared<const StringData>(StringData{MarkedText(std::move(text)), false})) {}

Value::Value(MarkedText text)
    : data_(std::make_shared<const StringData>(StringData{std::move(text), false})) {}

Value::Value(Dict dict) : data_(std::make_shared<Dict>(std::move(dict))) {}

Value Value::undefined(std::string_view name) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(name)};
  return value;
}

Value Value::missing() {
  Value value;
  value.data_ = Undefined{};
  return value;
}

Value Value::list(std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->items = std::move(items);
  for (const Value& item : sequence->items) sequence->add_weight(item);
  Value value;
  value.data_ = std::move(sequence);
  return value;
}

Value Value::tuple(std::vector<Value> items) {
  return named_tuple(std::move(items), "tuple");
}

Value Value::named_tuple(std::vector<Value> items, const char* type_name) {
  Value value = list(std::move(items));
  Sequence& sequence = *std::get<SequenceRef>(value.data_);
  sequence.kind = ValueKind::kTuple;
  sequence.type_name = type_name;
  return value;
}

Value Value::view(std::vector<Value> items, const char* type_name) {
  Value value = list(std::move(items));
  Sequence& sequence = *std::get<SequenceRef>(value.data_);
  sequence.kind = ValueKind::kView;
  sequence.type_name = type_name;
  return value;
}

Value Value::dict(std::initializer_list<std::pair<std::string_view, Value>> entries) {
  Dict dict;
  for (const auto& [key, value] : entries) dict.set(key, value);
  return dict;
}

Value Value::markup(MarkedText text) {
  Value value;
  value.data_ = std::make_shared<const StringData>(StringData{std::move(text), true});
  return value;
}

ValueKind Value::kind() const {
  switch (data_.index()) {
    case 0:
      return ValueKind::kNone;
    case 1:
      return ValueKind::kUndefined;
    case 2:
      return ValueKind::kBool;
    case 3:
      return ValueKind::kInt;
    case 4:
      return ValueKind::kDouble;
    case 5:
      return ValueKind::kString;
    case 6:
      return std::get<SequenceRef>(data_)->kind;
    case 7:
      return ValueKind::kDict;
    default:
      return ValueKind::kObject;
  }
}

bool Value::is_markup() const {
  return is_string() && std::get<StringRef>(data_)->is_markup;
}

const MarkedText& Value::as_text() const {
  return std::get<StringRef>(data_)->text;
}

std::span<const Value> Value::items() const {
  return std::get<SequenceRef>(data_)->items;
}

std::string_view Value::undefined_name() const {
  const auto& name = std::get<Undefined>(data_).name;
  return name == nullptr ? std::string_view() : std::string_view(*name);
}

// A list that only this handle holds; its content is copied when others hold it too.
static Sequence& unshared(std::shared_ptr<Sequence>& sequence) {
  if (sequence.use_count() > 1) sequence = std::make_shared<Sequence>(*sequence);
  return *sequence;
}

void Value::append(Value item) {
  Sequence& sequence = unshared(std::get<SequenceRef>(data_));
  sequence.add_weight(item);
  sequence.items.push_back(std::move(item));
}

void Value::insert(size_t index, Value item) {
  Sequence& sequence = unshared(std::get<SequenceRef>(data_));
  sequence.add_weight(item);
  sequence.items.insert(sequence.items.begin() + static_cast<ptrdiff_t>(index), std::move(item));
}

Value Value::remove(size_t index) {
  Sequence& sequence = unshared(std::get<SequenceRef>(data_));
  const auto at = sequence.items.begin() + static_cast<ptrdiff_t>(index);
  Value removed = std::move(*at);
  sequence.items.erase(at);
  return removed;
}

Dict& Value::mutable_dict() {
  DictRef& dict = std::get<DictRef>(data_);
  if (dict.use_count() > 1) dict = std::make_shared<Dict>(*dict);
  return *dict;
}

const Value* Value::find(std::string_view key) const {
  return is_dict() ? as_dict().find(key) : nullptr;
}

std::string_view Value::string_or(std::string_view key, std::string_view otherwise) const {
  const Value* value = find(key);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string()) : otherwise;
}

int Value::depth() const {
  if (is_sequence()) return as_sequence().depth;
  if (is_dict()) return as_dict().depth();
  return is_object() ? as_object().depth() : 0;
}

uint64_t Value::weight() const {
  if (is_string()) return kScalarWeight + as_text().size();
  if (is_sequence()) return kScalarWeight + as_sequence().weight;
  return kScalarWeight + (is_dict() ? as_dict().weight() : 0);
}

bool Value::is_frozen() const {
  if (is_sequence()) return as_sequence().is_frozen;
  return is_dict() && as_dict().is_frozen_;
}

Value Value::as_input() const {
  if (is_string()) {
    return is_whole_input(as_text()) && !is_markup() ? *this : MarkedText(as_string(), true);
  }
  if (is_sequence()) {
    auto copy = std::make_shared<Sequence>(as_sequence());
    for (Value& item : copy->items) item = item.as_input();
    copy->is_frozen = true;
    Value value;
    value.data_ = std::move(copy);
    return value;
  }
  if (is_dict()) {
    auto copy = std::make_shared<Dict>(as_dict());
    for (Dict::Entry& entry : copy->entries_) {
      entry = {entry.first.as_input(), entry.second.as_input()};
    }
    copy->is_frozen_ = true;
    Value value;
    value.data_ = std::move(copy);
    return value;
  }
  return *this;
}

const void* Value::identity() const {
  if (is_string()) return std::get<StringRef>(data_).get();
  if (is_sequence()) return std::get<SequenceRef>(data_).get();
  if (is_dict()) return std::get<DictRef>(data_).get();
  return is_object() ? std::get<ObjectRef>(data_).get() : nullptr;
}

void Sequence::add_weight(const Value& item) {
  weight = saturating_add(weight, item.weight());
  depth = std::max(depth, 1 + item.depth());
}

template <class Matches>
size_t Dict::position(uint64_t hash, Matches matches) const {
  if (index_.empty()) {
    size_t at = 0;
    while (at < entries_.size() && !matches(entries_[at].first)) ++at;
    return at;
  }
  const size_t mask = index_.size() - 1;
  for (size_t slot = hash & mask; index_[slot] != 0; slot = (slot + 1) & mask) {
    if (matches(entries_[index_[slot] - 1].first)) return index_[slot] - 1;
  }
  return entries_.size();
}

const Value* Dict::find(std::string_view key) const {
  const uint64_t hash = index_.empty() ? 0 : hash_text(key);
  const size_t at = position(
      hash, [key](const Value& other) { return other.is_string() && other.as_string() == key; });
  return at == entries_.size() ? nullptr : &entries_[at].second;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(std::string_view(key.as_string()));
  const uint64_t hash = index_.empty() ? 0 : hash_value(key);
  const size_t at = position(hash, [&key](const Value& other) { return equal(key, other); });
  return at == entries_.size() ? nullptr : &entries_[at].second;
}

void Dict::set(Value key, Value value) {
  MR_CHECK(is_hashable(key));
  weight_ = saturating_add(weight_, saturating_add(key.weight(), value.weight()));
  depth_ = std::max({depth_, 1 + key.depth(), 1 + value.depth()});
  if (const Value* existing = find(key)) {
    const_cast<Value&>(*existing) = std::move(value);  // an element of our own entries_
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() >= kIndexFrom) add_to_index(entries_.size() - 1);
}

bool Dict::erase(const Value& key) {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return equal(entry.first, key);
  });
  if (at == entries_.end()) return false;
  entries_.erase(at);
  if (!index_.empty()) rebuild_index();
  return true;
}

void Dict::add_to_index(size_t at) {
  if (index_.size() < 2 * entries_.size()) {
    rebuild_index();
    return;
  }
  const size_t mask = index_.size() - 1;
  size_t slot = hash_value(entries_[at].first) & mask;
  while (index_[slot] != 0) slot = (slot + 1) & mask;
  index_[slot] = static_cast<uint32_t>(at + 1);
}

void Dict::rebuild_index() {
  size_t size = 32;
  while (size < 4 * entries_.size()) size *= 2;
  index_.assign(size, 0);
  for (size_t at = 0; at < entries_.size(); ++at) {
    size_t slot = hash_value(entries_[at].first) & (size - 1);
    while (index_[slot] != 0) slot = (slot + 1) & (size - 1);
    index_[slot] = static_cast<uint32_t>(at + 1);
  }
}

bool equal(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return equal_numbers(a, b);
  if (a.is_string() && b.is_string()) return a.as_string() == b.as_string();
  if (a.is_sequence() && b.is_sequence()) return equal_sequences(a, b);
  if (a.is_dict() && b.is_dict()) return equal_dicts(a.as_dict(), b.as_dict());
  if (a.is_object() && b.is_object()) return a.identity() == b.identity();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool is_hashable(const Value& value) {
  if (value.is_dict() || value.is_list()) return false;
  if (!value.is_sequence()) return true;
  return std::all_of(value.items().begin(), value.items().end(), is_hashable);
}

uint64_t hash_value(const Value& key) {
  switch (key.kind()) {
    case ValueKind::kBool:
      return hash_integer(key.as_bool());
    case ValueKind::kInt:
      return hash_integer(key.as_int());
    case ValueKind::kDouble: {
      const double number = key.as_double();
      if (number >= -0x1p63 && number < 0x1p63 && number == std::floor(number)) {
        return hash_integer(static_cast<int64_t>(number));
      }
      return std::hash<double>{}(number);
    }
    case ValueKind::kString:
      return hash_text(key.as_string());
    case ValueKind::kTuple:
    case ValueKind::kView: {
      uint64_t hash = 17;
      for (const Value& item : key.items()) hash = hash * 0x100000001B3ull ^ hash_value(item);
      return hash;
    }
    case ValueKind::kObject:
      return std::hash<const void*>{}(key.identity());
    default:
      return static_cast<uint64_t>(key.kind());
  }
}

bool is_truthy(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return false;
    case ValueKind::kBool:
      return value.as_bool();
    case ValueKind::kInt:
      return value.as_int() != 0;
    case ValueKind::kDouble:
      return value.as_double() != 0;
    case ValueKind::kString:
      return !value.as_text().empty();
    case ValueKind::kDict:
      return !value.as_dict().empty();
    case ValueKind::kObject:
      return true;
    default:
      return !value.items().empty();
  }
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return "Undefined";
    case ValueKind::kNone:
      return "NoneType";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInt:
      return "int";
    case ValueKind::kDouble:
      return "float";
    case ValueKind::kString:
      return value.is_markup() ? "Markup" : "str";
    case ValueKind::kDict:
      return "dict";
    case ValueKind::kObject:
      return value.as_object().type_name();
    default:
      return value.as_sequence().type_name;
  }
}

}  // namespace millrace

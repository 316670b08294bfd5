#include "text/jinja_loop.h"

#include "text/jinja_methods.h"
#include "text/jinja_operators.h"

namespace millrace {

LoopObject::LoopObject(Value source, std::function<bool(const Value&)> accepts)
    : TemplateObject(ObjectKind::kLoop, "LoopContext"),
      source_(std::move(source)),
      accepts_(std::move(accepts)) {}

std::optional<Value> LoopObject::pull() {
  auto* iterator = object_if<IteratorObject>(source_, ObjectKind::kIterator);
  while (true) {
    size_t& next = iterator != nullptr ? iterator->next : next_;
    const std::span<const Value> items =
        iterator != nullptr ? std::span<const Value>(iterator->items) : source_.items();
    if (next >= items.size()) return std::nullopt;
    Value item = items[next++];
    if (!accepts_ || accepts_(item)) return item;
  }
}

bool LoopObject::advance() {
  std::optional<Value> item = ahead_ ? std::exchange(ahead_, std::nullopt) : pull();
  if (!item) return false;
  ++index0_;
  before_ = std::move(current_);
  current_ = std::move(item);
  return true;
}

void LoopObject::finish() {
  is_finished_ = true;
  recursive_statement = nullptr;  // its outer activation may end now
  changed_.reset();
  ahead_.reset();
  current_.reset();
  before_.reset();
  source_ = Value::list({});
  accepts_ = nullptr;
}

bool LoopObject::has_next() {
  if (!ahead_) ahead_ = pull();
  return ahead_.has_value();
}

int64_t LoopObject::length() {
  if (length_) return *length_;
  if (source_.is_sequence() && !accepts_) {
    length_ = static_cast<int64_t>(source_.items().size());
    return *length_;
  }
  std::vector<Value> rest;
  while (std::optional<Value> item = pull()) rest.push_back(std::move(*item));
  length_ = static_cast<int64_t>(rest.size()) + index0_ + 1 + (ahead_ ? 1 : 0);
  source_ = Value::list(std::move(rest));
  next_ = 0;
  accepts_ = nullptr;
  return *length_;
}

Value LoopObject::attribute(Runtime& runtime,
                            const Value& self,
                            const std::string& name,
                            const Value& otherwise) {
  runtime.step();
  if (name == "index0") return index0_;
  if (name == "index") return index0_ + 1;
  if (name == "first") return index0_ == 0;
  if (name == "last") return !has_next();
  if (name == "length") return length();
  if (name == "revindex") return length() - index0_;
  if (name == "revindex0") return length() - index0_ - 1;
  if (name == "depth") return depth0 + 1;
  if (name == "depth0") return depth0;
  if (name == "previtem") {
    return index0_ > 0 && before_ ? *before_ : Value::undefined("previtem");
  }
  if (name == "nextitem") return has_next() ? *ahead_ : Value::undefined("nextitem");
  if (has_method(self, name)) return Value(std::make_shared<MethodObject>(self, name));
  return otherwise;
}

Value LoopObject::cycle(const std::vector<Value>& items) const {
  if (items.empty()) template_fail("loop.cycle() needs at least one argument");
  const int64_t at = std::max<int64_t>(index0_, 0) % static_cast<int64_t>(items.size());
  return items[static_cast<size_t>(at)];
}

bool LoopObject::changed(Runtime& runtime, std::vector<Value> values) {
  Value now = Value::tuple(std::move(values));
  if (changed_ && is_equal(runtime, *changed_, now)) return false;
  if (!is_finished_) changed_ = std::move(now);
  return true;
}

}  // namespace millrace

#include "text/jinja_runtime.h"

#include <algorithm>
#include <ctime>

namespace millrace {
namespace {

constexpr int64_t kStepsBetweenClockReads = 2048;
constexpr int kBytesPerStepShift = 6;  // 64 bytes cost as much as one step

// What this thread has computed so far.
std::chrono::nanoseconds thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Runtime::Runtime(const TemplateLimits& limits, const CivilTime& now)
    : limits_(limits),
      now_(now),
      deadline_(thread_time() + limits.max_time),
      next_check_(std::min(kStepsBetweenClockReads, limits.max_steps)) {}

// Namespaces may hold each other in a ring.
Runtime::~Runtime() {
  for (const auto& space : namespaces_) space->attributes = Dict();
}

void Runtime::check() {
  if (steps_ > limits_.max_steps) {
    throw TemplateError{
        ErrorCode::kResourceExhausted, fmt::format("more than {} steps", limits_.max_steps), false};
  }
  if (thread_time() > deadline_) {
    throw TemplateError{ErrorCode::kResourceExhausted,
                        fmt::format("took longer than {} ms", limits_.max_time.count()),
                        false};
  }
  next_check_ = std::min(steps_ + kStepsBetweenClockReads, limits_.max_steps + 1);
}

void Runtime::charge_bytes(uint64_t n) {
  if (n > limits_.max_bytes - bytes_) {
    throw TemplateError{ErrorCode::kResourceExhausted,
                        fmt::format("needs more than {} bytes", limits_.max_bytes),
                        false};
  }
  bytes_ += n;
  step(static_cast<int64_t>(n >> kBytesPerStepShift));
}

Value Runtime::text(MarkedText text) {
  charge_bytes(text.size());
  return Value(std::move(text));
}

Value Runtime::list(std::vector<Value> items) {
  charge_bytes(items.size() * sizeof(Value));
  return Value::list(std::move(items));
}

Value Runtime::iterator(std::vector<Value> items, const char* type_name) {
  charge_bytes(items.size() * sizeof(Value));
  return Value(std::make_shared<IteratorObject>(std::move(items), type_name));
}

Value Runtime::make_namespace(Dict attributes) {
  charge_bytes(sizeof(NamespaceObject));
  auto space = std::make_shared<NamespaceObject>();
  space->attributes = std::move(attributes);
  namespaces_.push_back(space);
  return Value(std::shared_ptr<TemplateObject>(std::move(space)));
}

void Arguments::check(std::string_view function,
                      std::initializer_list<std::string_view> parameters,
                      size_t n_required) const {
  if (positional.size() > parameters.size()) {
    template_fail("{}() takes at most {} arguments, {} were given",
                  function,
                  parameters.size(),
                  positional.size());
  }
  for (const auto& [name, value] : named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      template_fail("{}() has no argument named '{}'", function, name);
    }
    if (static_cast<size_t>(found - parameters.begin()) < positional.size()) {
      template_fail("{}() got two values for '{}'", function, name);
    }
  }
  for (size_t i = positional.size(); i < n_required; ++i) {
    const std::string_view name = parameters.begin()[i];
    if (get(i, name) == nullptr) template_fail("{}() needs the argument '{}'", function, name);
  }
}

const Value* Arguments::get(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

void fail_undefined(const Value& value) {
  template_fail("'{}' is undefined", value.undefined_name());
}

void require_defined(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
}

int64_t to_integer(const Value& value, std::string_view what) {
  if (value.is_int()) return value.as_int();
  if (value.is_bool()) return value.as_bool() ? 1 : 0;
  require_defined(value);
  template_fail("{}: expected an integer, got {}", what, type_name(value));
}

const MarkedText& to_string_argument(const Value& value, std::string_view what) {
  if (value.is_string()) return value.as_text();
  require_defined(value);
  template_fail("{}: expected a string, got {}", what, type_name(value));
}

}  // namespace millrace

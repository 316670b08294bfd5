#pragma once
// The `loop` of a for loop: pulls items one by one, since a condition in the loop's head may depend
// on what the body changed, and looks one ahead only when asked to.

#include <functional>
#include <optional>

#include "text/jinja_object.h"

namespace millrace {

class Runtime;
struct ForStatement;
struct Activation;

struct LoopObject : TemplateObject {
  // source: a list-like value or an iterator. accepts may be empty.
  LoopObject(Value source, std::function<bool(const Value&)> accepts);

  bool advance();  // to the next item; false at the end
  const Value& current() const { return *current_; }
  // The loop ends: what loop.changed() remembers could hold the loop itself.
  void finish();

  // self is the value that holds this loop.
  Value attribute(Runtime& runtime,
                  const Value& self,
                  const std::string& name,
                  const Value& otherwise);
  Value cycle(const std::vector<Value>& items) const;
  bool changed(Runtime& runtime, std::vector<Value> values);

  // For loops with `recursive`: what calling the loop runs.
  const ForStatement* recursive_statement = nullptr;
  Activation* outer = nullptr;
  int depth0 = 0;

 private:
  std::optional<Value> pull();
  bool has_next();
  int64_t length();

  Value source_;
  size_t next_ = 0;
  std::function<bool(const Value&)> accepts_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> ahead_;
  std::optional<Value> current_;
  std::optional<Value> before_;
  std::optional<Value> changed_;
  bool is_finished_ = false;
};

}  // namespace millrace

#pragma once
// What one rendering may use up, and what functions, filters and tests are called with. One object
// per rendering, used by its thread only.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja_error.h"
#include "text/jinja_object.h"
#include "text/value.h"

namespace millrace {

struct TemplateLimits {
  int64_t max_steps = 4'000'000;
  size_t max_output_bytes = size_t{16} << 20;
  uint64_t max_bytes = uint64_t{512} << 20;  // made by all string and list operations together
  int max_calls = 64;                        // macros inside each other
  int max_nesting = 2500;                    // expressions and statements inside each other
  std::chrono::milliseconds max_time{2000};  // of processor time: the machine's load is no reason
};

class Runtime {
 public:
  Runtime(const TemplateLimits& limits, const CivilTime& now);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const TemplateLimits& limits() const { return limits_; }
  const CivilTime& now() const { return now_; }

  // Every loop over data pays, so that steps bound the time. Throws when a limit is reached.
  void step(int64_t n = 1) {
    steps_ += n;
    if (steps_ >= next_check_) check();
  }
  void charge_bytes(uint64_t n);  // before making or reading so many bytes

  Value text(MarkedText text);  // paid for
  Value list(std::vector<Value> items);
  Value iterator(std::vector<Value> items, const char* type_name = "generator");
  Value make_namespace(Dict attributes);

 private:
  void check();

  TemplateLimits limits_;
  CivilTime now_;
  std::chrono::nanoseconds deadline_;  // of this thread's processor time
  int64_t steps_ = 0;
  int64_t next_check_ = 0;
  uint64_t bytes_ = 0;
  std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Fails unless the arguments fit a function with these parameters, the first n_required of which
  // have no default.
  void check(std::string_view function,
             std::initializer_list<std::string_view> parameters,
             size_t n_required = 0) const;
  // The argument by position or name; null when it was not given.
  const Value* get(size_t position, std::string_view name) const;
};

// Python's complaints. what: "+", "length"...
[[noreturn]] void fail_undefined(const Value& value);
void require_defined(const Value& value);                       // fails with "'x' is undefined"
int64_t to_integer(const Value& value, std::string_view what);  // int or bool, else an error
const MarkedText& to_string_argument(const Value& value, std::string_view what);

}  // namespace millrace

#pragma once
// The tests of Jinja: what stands behind `is`.

#include <string_view>

#include "text/jinja_runtime.h"

namespace millrace {

using TestFunction = bool (*)(Runtime&, const Value& operand, const Arguments&);

struct TestEntry {
  std::string_view name;
  TestFunction function;
};

const TestEntry* find_test(std::string_view name);  // null: unknown

}  // namespace millrace

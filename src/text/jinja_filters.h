#pragma once
// The filters of Jinja that chat templates can need, with tojson as the reference library has it.

#include <string_view>

#include "text/jinja_runtime.h"

namespace millrace {

using FilterFunction = Value (*)(Runtime&, const Value& operand, const Arguments&);

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

const FilterEntry* find_filter(std::string_view name);  // null: unknown

// The filters that work on sequences, for find_filter.
const FilterEntry* find_sequence_filter(std::string_view name);

}  // namespace millrace

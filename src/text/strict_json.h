#pragma once
// JSON as RFC 8259 has it, for documents from outside: parse_json (value.h)
// reads what Python's json module reads, which is more. Pure, any thread.

#include <string_view>

#include "base/result.h"
#include "text/value.h"

namespace millrace {

// parse_json without NaN, Infinity and numbers that no double can hold.
Result<Value> parse_strict_json(std::string_view document);

}  // namespace millrace

#pragma once
// Methods of Python's str.

#include "text/jinja_runtime.h"

namespace millrace {

using StringMethod = Value (*)(Runtime&, const MarkedText& self, const Arguments&);
StringMethod find_string_method(std::string_view name);  // null: no such method

}  // namespace millrace

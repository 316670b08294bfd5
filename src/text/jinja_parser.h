#pragma once
// Template source to tree with all names bound to slots. Pure function, any thread.

#include <string_view>

#include "text/jinja_ast.h"

namespace millrace {

inline constexpr size_t kMaxTemplateBytes = 1 << 20;

// Throws TemplateError. Tags that load other templates or need extensions are kUnsupported by name.
ParsedTemplate parse_template(std::string_view source);

}  // namespace millrace

#pragma once
// Paths that other servers have, and what Millrace has in their place. Pure function.

#include <string_view>

namespace millrace {

// "POST /v1/completions" for "/api/generate"; empty for a path that means nothing here either.
std::string_view instead_of(std::string_view path);

}  // namespace millrace

#pragma once
// Paths that other servers have, and what Millrace has in their place. Pure functions.

#include <string>
#include <string_view>

namespace millrace {

// "POST /v1/completions" for "/api/generate"; empty for a path that means nothing here either.
std::string_view instead_of(std::string_view path);

// Without doubled slashes and one at the end: "/v1/models" for "//v1/models/".
std::string tidy_path(std::string_view path);

}  // namespace millrace

#pragma once
// Paths that other servers have, and what Millrace has in their place. Pure functions.

#include <span>
#include <string>
#include <string_view>

namespace millrace {

struct ForeignPath {
  std::string_view path;  // "/slots/*" is everything below /slots
  std::string_view here;
};

std::span<const ForeignPath> foreign_paths();  // the first that matches counts

// "POST /v1/completions" for "/api/generate", "embeddings are not built" for "/v1/embeddings";
// empty for a path that means nothing here either.
std::string_view instead_of(std::string_view path);

// Without doubled slashes, one at the end, and a doubled /v1: "/v1/models" for "//v1/v1/models/".
std::string tidy_path(std::string_view path);

}  // namespace millrace

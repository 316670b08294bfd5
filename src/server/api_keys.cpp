#include "server/api_keys.h"

#include <algorithm>
#include <sstream>

#include "base/regular_file.h"
#include "server/http.h"

namespace millrace {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

bool equals_in_constant_time(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |=
        static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
  }
  return difference == 0;
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
  return line.substr(0, line.find_last_not_of(kSpace) + 1);
}

}  // namespace

Result<ApiKeys> ApiKeys::read_file(const std::string& path) {
  const auto content = read_regular_file(path, kMaxFileBytes);
  if (!content) {
    return fail(content.error().code, "--api-key-file {}", content.error().message);
  }
  std::istringstream file(*content);
  std::vector<std::string> keys;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string_view key = trimmed(line);
    if (key.empty() || key.front() == '#') {
      continue;
    }
    if (!std::ranges::all_of(key, [](char c) { return c > 0x20 && c < 0x7f; })) {
      return fail(
          ErrorCode::kInvalidArgument,
          "--api-key-file {}: line {} is not a key: expected printable ASCII without spaces",
          path,
          number);
    }
    keys.emplace_back(key);
  }
  if (keys.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--api-key-file {}: holds no key (one a line, # begins a comment)",
                path);
  }
  return ApiKeys(std::move(keys));
}

std::optional<int> ApiKeys::find(std::string_view authorization) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (!equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) {
    return std::nullopt;
  }
  authorization.remove_prefix(kScheme.size());
  std::optional<int> found;
  for (size_t i = keys_.size(); i-- > 0;) {
    if (equals_in_constant_time(authorization, keys_[i])) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

}  // namespace millrace

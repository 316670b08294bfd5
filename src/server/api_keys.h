#pragma once
// The keys that open the server. Immutable after reading; any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace {

class ApiKeys {
 public:
  ApiKeys() = default;  // no keys: everything is open
  // One key a line, without the space around it; empty lines and lines that begin with # are
  // skipped. No key at all is an error, and so is a line that no client could send as one.
  static Result<ApiKeys> read_file(const std::string& path);
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  bool is_open() const { return keys_.empty(); }
  // authorization: the header, "Bearer KEY". Takes the same time wherever the first difference is.
  bool allows(std::string_view authorization) const { return is_open() || find(authorization); }
  // The number of the key, the first that is equal.
  std::optional<int> find(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace millrace

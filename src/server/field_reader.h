#pragma once
// Reads the fields of one JSON object into typed variables, each with its range. Absent and null
// leave the variable as it was. The first mistake is kept as an ApiError that says where it is,
// what was expected and what came; later reads then do nothing. One thread, while the Value lives.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "text/value.h"

namespace millrace {

class FieldReader {
 public:
  // path: "" for the body, "stream_options" or "messages[1]" below it. Anything but an object is
  // already a mistake.
  explicit FieldReader(const Value& object, std::string path = {});

  // The value of a field; null when absent or null. Counts as read.
  const Value* take(std::string_view name);

  void read(std::string_view name, bool& out);
  void read(std::string_view name, std::string& out);
  void read(std::string_view name, int64_t low, int64_t high, int64_t& out);
  void read(std::string_view name, int64_t low, int64_t high, int& out);
  void read(std::string_view name, int64_t low, int64_t high, std::optional<int64_t>& out);
  void read(std::string_view name, double low, double high, float& out);

  // The field is there and asks for something that this server does not do.
  void refuse(std::string_view name, std::string_view why);
  // Marks fields that are fine but change nothing here.
  void ignore(std::initializer_list<std::string_view> names);

  // Keeps the first mistake. Field: relative to this object, "stop[2]".
  void fail_at(std::string_view field, std::string message);
  void adopt(const FieldReader& nested);

  std::string path_of(std::string_view field) const;
  bool has_failed() const { return error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }
  // Names that nobody has asked for, the first few of them.
  std::vector<std::string> unread() const;

 private:
  std::optional<int64_t> read_integer(std::string_view name, int64_t low, int64_t high);

  const Value* object_;
  std::string path_;
  std::vector<std::string_view> read_names_;
  std::optional<ApiError> error_;
};

// A request's body as JSON, strictly; what it holds is the reader's matter.
ApiResult<Value> parse_body(std::string_view body);

// For messages: "an integer", "the string \"abc\"", "an object"; long strings
// are cut.
std::string describe(const Value& value);

}  // namespace millrace

#pragma once
// Reads the fields of one JSON object into typed variables, each with its range. Absent and null
// leave the variable as it was. The first mistake is kept as an ApiError that says where it is,
// what was expected and what came; later reads then do nothing. One thread, while the Value lives.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "server/api_error.h"
#include "text/value.h"

namespace millrace {

// What every body has.
struct BodyFields {
  std::string model;
  std::vector<std::string> unknown;  // names of fields that nobody has read
};

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
  void fail_at(std::string_view field,
               std::string_view message,
               ApiCode code = ApiCode::kInvalidValue);
  // The same for a value of another type, null when there is none: "expected WHAT, got nothing".
  void fail_expecting(std::string_view field, std::string_view what, const Value* value);
  // The mistake of a reader below this one, and the names that it has not been asked for.
  void adopt(const FieldReader& nested);

  std::string path_of(std::string_view field) const;
  bool has_failed() const { return error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }
  // Names that nobody has asked for, the first few of them.
  std::vector<std::string> unread() const;
  // At the end: the request, or the first mistake in it.
  template <class Parsed>
  ApiResult<Parsed> finish(Parsed request) const {
    if (error_) {
      return tl::unexpected(*error_);
    }
    request.fields.unknown = unread();
    return request;
  }

 private:
  std::optional<int64_t> read_integer(std::string_view name, int64_t low, int64_t high);

  const Value* object_;
  std::string path_;
  std::vector<std::string_view> read_names_;
  std::vector<std::string> unread_below_;
  std::optional<ApiError> error_;
};

// A request's body as JSON, strictly; what it holds is the reader's matter. Arrays of ids in
// "prompt" and "tokens" are packed (strict_json.h). The text is freed on return.
ApiResult<Value> parse_body(std::string body);

// An array, packed or not.
bool is_array(const Value& value);
// The ids of an array, moved out of a packed one. Each is 0 to high, or a mistake.
std::vector<TokenId> take_ids(FieldReader& reader,
                              std::string_view field,
                              const Value& array,
                              int64_t high);

// For messages: "an integer", "the string \"abc\"", "an object"; long strings
// are cut.
std::string describe(const Value& value);

}  // namespace millrace

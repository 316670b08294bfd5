#include "server/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/json_text.h"
#include "text/strict_json.h"

namespace millrace {
namespace {

constexpr size_t kShownBytes = 40;
constexpr size_t kMaxUnread = 64;

std::string expected(std::string_view what, const Value& value) {
  return fmt::format("expected {}, got {}", what, describe(value));
}

}  // namespace

std::string describe(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return "null";
    case ValueKind::kBool:
      return value.as_bool() ? "true" : "false";
    case ValueKind::kInt:
      return fmt::format("{}", value.as_int());
    case ValueKind::kDouble:
      return fmt::format("{}", value.as_double());
    case ValueKind::kString: {
      const std::string& text = value.as_string();
      return "the string " +
             json_string(text.size() <= kShownBytes ? text : text.substr(0, kShownBytes) + "...");
    }
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kView:
      return "an array";
    case ValueKind::kDict:
    case ValueKind::kObject:
      break;
  }
  return "an object";
}

ApiResult<Value> parse_body(std::string_view body) {
  if (body.empty()) {
    return tl::unexpected(
        ApiError{400, "the request body is empty, a JSON object was expected", "", "invalid_json"});
  }
  auto value = parse_strict_json(body);
  if (!value) {
    return tl::unexpected(
        ApiError{400, "the request body is no JSON: " + value.error().message, "", "invalid_json"});
  }
  return std::move(*value);
}

FieldReader::FieldReader(const Value& object, std::string path)
    : object_(&object), path_(std::move(path)) {
  if (!object.is_dict()) {
    error_ = ApiError{400,
                      fmt::format("{}: {}",
                                  path_.empty() ? "the request body" : path_,
                                  expected("a JSON object", object)),
                      path_,
                      "invalid_type"};
  }
}

std::string FieldReader::path_of(std::string_view field) const {
  return path_.empty() ? std::string(field) : fmt::format("{}.{}", path_, field);
}

void FieldReader::fail_at(std::string_view field, std::string message) {
  if (!error_) {
    const std::string path = path_of(field);
    error_ = ApiError{400, fmt::format("{}: {}", path, message), path, "invalid_value"};
  }
}

void FieldReader::adopt(const FieldReader& nested) {
  if (!error_) {
    error_ = nested.error_;
  }
}

const Value* FieldReader::take(std::string_view name) {
  if (!object_->is_dict()) {
    return nullptr;
  }
  read_names_.push_back(name);
  const Value* value = object_->find(name);
  return value == nullptr || value->is_none() ? nullptr : value;
}

void FieldReader::read(std::string_view name, bool& out) {
  const Value* value = take(name);
  if (value == nullptr) {
    return;
  }
  if (value->is_bool()) {
    out = value->as_bool();
  } else {
    fail_at(name, expected("true or false", *value));
  }
}

void FieldReader::read(std::string_view name, std::string& out) {
  const Value* value = take(name);
  if (value == nullptr) {
    return;
  }
  if (value->is_string()) {
    out = value->as_string();
  } else {
    fail_at(name, expected("a string", *value));
  }
}

std::optional<int64_t> FieldReader::read_integer(std::string_view name, int64_t low, int64_t high) {
  const Value* value = take(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_int() || value->as_int() < low || value->as_int() > high) {
    fail_at(name, expected(fmt::format("an integer from {} to {}", low, high), *value));
    return std::nullopt;
  }
  return value->as_int();
}

void FieldReader::read(std::string_view name, int64_t low, int64_t high, int64_t& out) {
  out = read_integer(name, low, high).value_or(out);
}

void FieldReader::read(std::string_view name, int64_t low, int64_t high, int& out) {
  out = static_cast<int>(read_integer(name, low, high).value_or(out));
}

void FieldReader::read(std::string_view name,
                       int64_t low,
                       int64_t high,
                       std::optional<int64_t>& out) {
  if (const auto value = read_integer(name, low, high)) {
    out = value;
  }
}

void FieldReader::read(std::string_view name, double low, double high, float& out) {
  const Value* value = take(name);
  if (value == nullptr) {
    return;
  }
  const double number = value->is_int()      ? static_cast<double>(value->as_int())
                        : value->is_double() ? value->as_double()
                                             : std::nan("");
  if (number >= low && number <= high) {
    out = static_cast<float>(number);
  } else {
    fail_at(name, expected(fmt::format("a number from {} to {}", low, high), *value));
  }
}

void FieldReader::refuse(std::string_view name, std::string_view why) {
  if (!error_) {
    const std::string path = path_of(name);
    error_ = ApiError{400, fmt::format("{}: {}", path, why), path, "unsupported_parameter"};
  }
}

void FieldReader::ignore(std::initializer_list<std::string_view> names) {
  read_names_.insert(read_names_.end(), names.begin(), names.end());
}

std::vector<std::string> FieldReader::unread() const {
  std::vector<std::string> names;
  if (!object_->is_dict()) {
    return names;
  }
  for (const auto& [key, value] : object_->as_dict()) {
    const bool is_read =
        std::find(read_names_.begin(), read_names_.end(), key.as_string()) != read_names_.end();
    if (!is_read && names.size() < kMaxUnread) {
      names.push_back(path_of(key.as_string()));
    }
  }
  return names;
}

}  // namespace millrace

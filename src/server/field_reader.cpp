#include "server/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "server/json_text.h"
#include "text/strict_json.h"

namespace millrace {
namespace {

constexpr size_t kShownBytes = 40;
constexpr size_t kMaxUnread = 64;

// A value takes about a hundred bytes: with this many a body takes some tens of megabytes.
constexpr size_t kMaxValues = size_t{1} << 18;
constexpr std::array<std::string_view, 2> kIdFields = {"prompt", "tokens"};

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
    case ValueKind::kDouble: {
      const std::string digits = fmt::format("{}", value.as_double());
      const bool is_plain = digits.find_first_not_of("-0123456789") == std::string::npos;
      return is_plain ? digits + ".0" : digits;  // or it would look like an integer
    }
    case ValueKind::kString: {
      const std::string& text = value.as_string();
      return "the string " + json_string(text.size() <= kShownBytes
                                             ? text
                                             : std::string(cut_text(text, kShownBytes)) + "...");
    }
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kView:
    case ValueKind::kObject:  // only packed ids are
      return "an array";
    case ValueKind::kDict:
      break;
  }
  return "an object";
}

ApiResult<Value> parse_body(std::string body) {
  if (body.empty()) {
    return tl::unexpected(
        ApiError{ApiCode::kInvalidJson, "the request body is empty, a JSON object was expected"});
  }
  auto value = parse_strict_json(body, {.id_fields = kIdFields, .max_values = kMaxValues});
  if (value) {
    return std::move(*value);
  }
  if (value.error().code == ErrorCode::kResourceExhausted) {
    return tl::unexpected(
        ApiError{ApiCode::kTooManyValues,
                 "the request body holds too many values: " + value.error().message});
  }
  if (value.error().code == ErrorCode::kUnsupported) {
    return tl::unexpected(
        ApiError{ApiCode::kInvalidValue, "the request body: " + value.error().message});
  }
  return tl::unexpected(
      ApiError{ApiCode::kInvalidJson, "the request body is not JSON: " + value.error().message});
}

bool is_array(const Value& value) {
  return value.is_list() || token_ids_of(value) != nullptr;
}

std::vector<TokenId> take_ids(FieldReader& reader,
                              std::string_view field,
                              const Value& array,
                              int64_t high) {
  std::vector<TokenId> ids;
  const auto fail_at = [&](size_t i, const Value& value) {
    reader.fail_at(fmt::format("{}[{}]", field, i),
                   expected(fmt::format("a token id from 0 to {}", high), value),
                   value.is_int() ? ApiCode::kInvalidValue : ApiCode::kInvalidType);
  };
  if (auto* packed = token_ids_of(array)) {
    ids = std::move(*packed);
    const auto wrong = std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return id > high; });
    if (wrong != ids.end()) {
      fail_at(static_cast<size_t>(wrong - ids.begin()), Value(int64_t{*wrong}));
    }
    return ids;
  }
  for (const Value& item : array.items()) {
    if (!item.is_int() || item.as_int() < 0 || item.as_int() > high) {
      fail_at(ids.size(), item);
      break;
    }
    ids.push_back(static_cast<TokenId>(item.as_int()));
  }
  return ids;
}

FieldReader::FieldReader(const Value& object, std::string path)
    : object_(&object), path_(std::move(path)) {
  if (!object.is_dict()) {
    error_ = ApiError{ApiCode::kInvalidType,
                      fmt::format("{}: {}",
                                  path_.empty() ? "the request body" : path_,
                                  expected("a JSON object", object)),
                      path_};
  }
}

std::string FieldReader::path_of(std::string_view field) const {
  return path_.empty() ? std::string(field) : fmt::format("{}.{}", path_, field);
}

void FieldReader::fail_at(std::string_view field, std::string_view message, ApiCode code) {
  if (!error_) {
    const std::string path = path_of(field);
    error_ = ApiError{code, fmt::format("{}: {}", path, message), path};
  }
}

void FieldReader::fail_expecting(std::string_view field,
                                 std::string_view what,
                                 const Value* value) {
  if (value == nullptr) {
    fail_at(
        field, fmt::format("expected {}, got nothing", what), ApiCode::kMissingRequiredParameter);
  } else {
    fail_at(field, expected(what, *value), ApiCode::kInvalidType);
  }
}

void FieldReader::adopt(const FieldReader& nested) {
  if (!error_) {
    error_ = nested.error_;
  }
  const std::vector<std::string> unread = nested.unread();
  unread_below_.insert(unread_below_.end(), unread.begin(), unread.end());
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
    fail_expecting(name, "true or false", value);
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
    fail_expecting(name, "a string", value);
  }
}

std::optional<int64_t> FieldReader::read_integer(std::string_view name, int64_t low, int64_t high) {
  const Value* value = take(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_int() || value->as_int() < low || value->as_int() > high) {
    fail_at(name,
            expected(fmt::format("an integer from {} to {}", low, high), *value),
            value->is_int() ? ApiCode::kInvalidValue : ApiCode::kInvalidType);
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
    fail_at(name,
            expected(fmt::format("a number from {} to {}", low, high), *value),
            std::isnan(number) ? ApiCode::kInvalidType : ApiCode::kInvalidValue);
  }
}

void FieldReader::refuse(std::string_view name, std::string_view why) {
  fail_at(name, why, ApiCode::kUnsupportedParameter);
}

void FieldReader::ignore(std::initializer_list<std::string_view> names) {
  read_names_.insert(read_names_.end(), names.begin(), names.end());
}

std::vector<std::string> FieldReader::unread() const {
  std::vector<std::string> names = unread_below_;
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

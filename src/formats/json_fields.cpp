#include "formats/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

namespace millrace {

namespace dom = simdjson::dom;

JsonFields::JsonFields(dom::object object,
                       std::string where,
                       std::string prefix,
                       Result<void>* result)
    : object_(object), where_(std::move(where)), prefix_(std::move(prefix)), result_(result) {}

std::optional<dom::element> JsonFields::find(std::string_view key) const {
  dom::element value;
  if (object_[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

bool JsonFields::is_null(std::string_view key) const {
  dom::element value;
  return object_[key].get(value) == simdjson::SUCCESS && value.is_null();
}

bool JsonFields::has_objects() const {
  for (const auto& [key, value] : object_) {
    static_cast<void>(key);
    if (value.is_object()) return true;
  }
  return false;
}

int64_t JsonFields::dimension(std::string_view key, std::optional<int64_t> fallback) {
  const auto value = present(key, fallback.has_value());
  if (!value) return fallback.value_or(1);
  int64_t number = 0;
  if (value->get(number) != simdjson::SUCCESS || number < 1 ||
      number > std::numeric_limits<int32_t>::max()) {
    refuse_value(key, *value, "a whole number from 1 to 2147483647");
    return 1;
  }
  return number;
}

double JsonFields::number(std::string_view key, std::optional<double> fallback) {
  const auto value = present(key, fallback.has_value());
  if (!value) return fallback.value_or(1);
  double number = 0;
  // As the 32 bits that it becomes.
  if (value->get(number) != simdjson::SUCCESS || !(static_cast<float>(number) > 0) ||
      !std::isfinite(static_cast<float>(number))) {
    refuse_value(key, *value, "a number above 0");
    return 1;
  }
  return number;
}

std::optional<bool> JsonFields::flag(std::string_view key) {
  const auto value = find(key);
  bool flag = false;
  if (!value) return std::nullopt;
  if (value->get(flag) != simdjson::SUCCESS) refuse_value(key, *value, "true or false");
  return flag;
}

std::string_view JsonFields::text(std::string_view key) {
  const auto value = find(key);
  std::string_view text;
  if (value && value->get(text) != simdjson::SUCCESS) refuse_value(key, *value, "a text");
  return text;
}

std::optional<JsonFields> JsonFields::object_of(std::string_view key) {
  const auto value = find(key);
  dom::object object;
  if (!value) return std::nullopt;
  if (value->get(object) != simdjson::SUCCESS) {
    refuse_value(key, *value, "an object");
    return std::nullopt;
  }
  if (const auto twin = repeated_key(object)) {
    stop(ErrorCode::kCorrupt, fmt::format("'{}{}.{}' appears twice", prefix_, key, *twin));
  }
  return JsonFields(object, where_, fmt::format("{}{}.", prefix_, key), result_);
}

void JsonFields::refuse_value(std::string_view key,
                              const dom::element& value,
                              std::string_view expected) {
  constexpr size_t kShown = 60;
  std::string text = simdjson::to_string(value);
  if (text.size() > kShown) text = fmt::format("a value of {} bytes", text.size());
  stop(ErrorCode::kCorrupt, fmt::format("{}{} is {}, expected {}", prefix_, key, text, expected));
}

void JsonFields::refuse_feature(std::string_view key,
                                std::string_view value,
                                std::string_view feature) {
  stop(ErrorCode::kUnsupported,
       fmt::format("{}{} is {}: {} is not supported", prefix_, key, value, feature));
}

void JsonFields::stop(ErrorCode code, const std::string& message) {
  if (*result_) *result_ = fail(code, "{}: {}", where_, message);
}

std::optional<dom::element> JsonFields::present(std::string_view key, bool may_be_absent) {
  const auto value = find(key);
  if (!value && !may_be_absent) {
    stop(ErrorCode::kCorrupt, fmt::format("{}{} is missing", prefix_, key));
  }
  return value;
}

}  // namespace millrace

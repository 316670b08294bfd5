#pragma once
// What --json prints: objects built field by field, in order. Plain value, any thread.

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <string>
#include <string_view>

#include "server/json_text.h"

namespace millrace {

class JsonObject {
 public:
  JsonObject& add(std::string_view name, std::string_view text) {
    return add_raw(name, json_string(text));
  }
  JsonObject& add(std::string_view name, const char* text) {
    return add(name, std::string_view(text));
  }
  JsonObject& add(std::string_view name, bool value) {
    return add_raw(name, value ? "true" : "false");
  }
  JsonObject& add(std::string_view name, std::integral auto value) {
    return add_raw(name, fmt::format("{}", value));
  }
  JsonObject& add(std::string_view name, double value) {
    return add_raw(name, std::isfinite(value) ? fmt::format("{:.6g}", value) : "null");
  }
  JsonObject& add(std::string_view name, const JsonObject& object) {
    return add_raw(name, object.text());
  }
  // json is already JSON.
  JsonObject& add_raw(std::string_view name, std::string_view json) {
    fields_ += fields_.empty() ? "" : ",";
    fields_ += json_string(name);
    fields_ += ':';
    fields_ += json;
    return *this;
  }
  std::string text() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

}  // namespace millrace

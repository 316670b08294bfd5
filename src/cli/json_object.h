#pragma once
// What --json prints: objects built field by field, in order. Plain value, any thread.

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "server/json_text.h"

namespace millrace {

class JsonObject {
 public:
  // Texts, booleans, numbers (a float with the digits that read back as the same float, a double
  // with six), objects, and vectors of these.
  template <class T>
  JsonObject& add(std::string_view name, const T& value) {
    fields_ += fields_.empty() ? "" : ",";
    append_json_string(fields_, name);
    fields_ += ':';
    append(fields_, value);
    return *this;
  }
  std::string text() const { return "{" + fields_ + "}"; }

 private:
  static void append(std::string& out, std::string_view text) { append_json_string(out, text); }
  static void append(std::string& out, const char* text) { append_json_string(out, text); }
  static void append(std::string& out, bool value) { out += value ? "true" : "false"; }
  static void append(std::string& out, std::integral auto value) {
    out += fmt::format("{}", value);
  }
  static void append(std::string& out, double value) {
    out += std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
  }
  static void append(std::string& out, float value) {
    out += std::isfinite(value) ? fmt::format("{}", value) : "null";
  }
  static void append(std::string& out, const JsonObject& object) { out += object.text(); }
  template <class T>
  static void append(std::string& out, const std::vector<T>& values) {
    out += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      out += i == 0 ? "" : ",";
      append(out, T(values[i]));
    }
    out += ']';
  }

  std::string fields_;
};

}  // namespace millrace

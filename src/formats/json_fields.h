#pragma once
// Typed reads of one JSON object of a settings file. One thread at a time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/json_document.h"

namespace millrace {

// The first error stays in `result`, and all that is read after it is worth nothing.
class JsonFields {
 public:
  // where: begins messages, as "[config] folder/config.json"; prefix: of the object's keys in them,
  // as "rope_scaling.".
  JsonFields(simdjson::dom::object object,
             std::string where,
             std::string prefix,
             Result<void>* result);

  // Null is as good as absent.
  std::optional<simdjson::dom::element> find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key).has_value(); }
  bool is_null(std::string_view key) const;
  bool has_objects() const;  // as values
  const simdjson::dom::object& object() const { return object_; }

  // A whole number from 1 to 2^31 - 1. Without a fallback the key has to be there.
  int64_t dimension(std::string_view key, std::optional<int64_t> fallback = {});
  // A number above 0 that 32 bits can hold, as GGUF has it.
  double number(std::string_view key, std::optional<double> fallback = {});
  std::optional<bool> flag(std::string_view key);
  std::string_view text(std::string_view key);  // empty when absent
  // The object that a key holds; absent when there is none. One that has a key twice is refused.
  std::optional<JsonFields> object_of(std::string_view key);

  // Errors: kCorrupt, kUnsupported, any.
  void refuse_value(std::string_view key,
                    const simdjson::dom::element& value,
                    std::string_view expected);
  void refuse_feature(std::string_view key, std::string_view value, std::string_view feature);
  void stop(ErrorCode code, const std::string& message);

 private:
  std::optional<simdjson::dom::element> present(std::string_view key, bool may_be_absent);

  simdjson::dom::object object_;
  std::string where_;
  std::string prefix_;
  Result<void>* result_;
};

}  // namespace millrace

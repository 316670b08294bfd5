#pragma once
// JSON files of a checkpoint. simdjson is known to this header and to the sources of this module
// that include it. One thread at a time.

#include <simdjson.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

struct JsonDocument {
  std::unique_ptr<simdjson::dom::parser> parser;  // holds what root refers to
  simdjson::dom::object root;
};

// where: begins the message, as "[config] folder/config.json". kCorrupt unless the text is one JSON
// object.
Result<JsonDocument> parse_json_object(std::string_view text, const std::string& where);

// A key that the object has twice: readers differ in which one they take.
std::optional<std::string_view> repeated_key(const simdjson::dom::object& object);

}  // namespace millrace

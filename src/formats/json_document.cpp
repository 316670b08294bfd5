#include "formats/json_document.h"

#include <algorithm>
#include <vector>

namespace millrace {

namespace dom = simdjson::dom;

Result<JsonDocument> parse_json_object(std::string_view text, const std::string& where) {
  if (text.empty()) return fail(ErrorCode::kCorrupt, "{} is empty", where);
  JsonDocument document;
  document.parser = std::make_unique<dom::parser>();
  dom::element root;
  const simdjson::error_code error = document.parser->parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return fail(ErrorCode::kCorrupt, "{} is not JSON: {}", where, simdjson::error_message(error));
  }
  if (root.get(document.root) != simdjson::SUCCESS) {
    return fail(ErrorCode::kCorrupt, "{} is JSON, but not an object", where);
  }
  return document;
}

std::optional<std::string_view> repeated_key(const dom::object& object) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : object) {
    static_cast<void>(value);
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  const auto twin = std::adjacent_find(keys.begin(), keys.end());
  if (twin == keys.end()) return std::nullopt;
  return *twin;
}

}  // namespace millrace

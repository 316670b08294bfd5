#pragma once
// JSON as RFC 8259 has it, for the bodies of requests: parse_json (value.h) reads what Python's
// json module reads, which is more. What it gives takes little memory beside the text. Pure, any
// thread.

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/jinja_object.h"
#include "text/value.h"

namespace millrace {

// An array of token ids, 4 bytes each. Only fields named in id_fields hold such a value.
struct TokenIdsObject : TemplateObject {
  explicit TokenIdsObject(std::vector<TokenId> ids)
      : TemplateObject(ObjectKind::kTokenIds, "list"), ids(std::move(ids)) {}
  std::vector<TokenId> ids;
};

struct StrictJsonOptions {
  // Members of the outermost object in which every array of one or more integers from 0 to
  // INT32_MAX, and of nothing else, becomes a TokenIdsObject.
  std::span<const std::string_view> id_fields = {};
  // A value of a few bytes takes a hundred in memory, so their number is bounded. Keys and ids in
  // id_fields do not count.
  size_t max_values = SIZE_MAX;
};

// parse_json without NaN, Infinity and numbers that no double can hold. Strings are marked as
// input; short ones that recur are stored once. kResourceExhausted: more than max_values.
// kUnsupported: up to there JSON, but with such a number or too deep.
Result<Value> parse_strict_json(std::string_view document, const StrictJsonOptions& options = {});

// The ids of such a value, else null.
inline std::vector<TokenId>* token_ids_of(const Value& value) {
  auto* object = object_if<TokenIdsObject>(value, ObjectKind::kTokenIds);
  return object == nullptr ? nullptr : &object->ids;
}

}  // namespace millrace

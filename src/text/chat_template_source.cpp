#include "text/chat_template_source.h"

#include "text/value.h"

namespace millrace {
namespace {

constexpr const char* kKey = "chat_template";

// Of [{"name": ..., "template": ...}, ...].
Result<std::optional<std::string>> default_template(const Value& named) {
  std::string names;
  for (const Value& entry : named.items()) {
    const std::string_view name = entry.string_or("name", "");
    const Value* source = entry.find("template");
    if (source == nullptr || !source->is_string()) {
      return fail(ErrorCode::kCorrupt,
                  "[tokenizer_config.json] {}: expected a name and a template in each entry",
                  kKey);
    }
    if (name == "default") {
      return std::optional(source->as_string());
    }
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  if (names.empty()) {
    return std::optional<std::string>();
  }
  return fail(ErrorCode::kUnsupported,
              "[tokenizer_config.json] none of the chat templates is named default: {}",
              names);
}

}  // namespace

Result<std::optional<std::string>> chat_template_source(
    std::optional<std::string_view> chat_template_jinja,
    std::optional<std::string_view> tokenizer_config) {
  if (chat_template_jinja) {
    return std::optional(std::string(*chat_template_jinja));
  }
  if (!tokenizer_config) {
    return std::optional<std::string>();
  }
  const Result<Value> config = parse_json(*tokenizer_config);
  if (!config) {
    return fail(ErrorCode::kCorrupt, "[tokenizer_config.json] {}", config.error().message);
  }
  const Value* source = config->find(kKey);
  if (source == nullptr || source->is_none()) {
    return std::optional<std::string>();
  }
  if (source->is_string()) {
    return std::optional(source->as_string());
  }
  if (source->is_list()) {
    return default_template(*source);
  }
  return fail(ErrorCode::kCorrupt,
              "[tokenizer_config.json] {} is neither a text nor a list of named texts",
              kKey);
}

}  // namespace millrace

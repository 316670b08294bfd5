#pragma once
// Where a Hugging Face folder keeps its chat template. Pure function, any thread.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

// The texts of the files; absent: there is no such file. chat_template.jinja comes first, then
// "chat_template" of tokenizer_config.json: a template, or a list of named ones of which "default"
// is taken. Absent: the folder has none. kUnsupported: none of the named ones is the default;
// kCorrupt.
Result<std::optional<std::string>> chat_template_source(
    std::optional<std::string_view> chat_template_jinja,
    std::optional<std::string_view> tokenizer_config);

}  // namespace millrace

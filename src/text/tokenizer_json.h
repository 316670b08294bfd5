#pragma once
// Reads Hugging Face's tokenizer.json, with tokenizer_config.json and generation_config.json from
// the same folder when they are there. Any thread.

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace millrace {

// `path` is the tokenizer.json or its folder. Unknown models, normalizers, pre-tokenizers and
// decoders are refused by name (kUnsupported); a damaged file is kCorrupt.
Result<TokenizerSpec> load_tokenizer_json(const std::string& path);

// The same from the texts of the three files; an empty text is an absent file.
Result<TokenizerSpec> parse_tokenizer_json(std::string_view tokenizer_json,
                                           std::string_view tokenizer_config,
                                           std::string_view generation_config);

}  // namespace millrace

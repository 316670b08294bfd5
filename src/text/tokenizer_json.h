#pragma once
// Reads Hugging Face's tokenizer.json, with tokenizer_config.json, generation_config.json and
// config.json from the same folder when they are there. Any thread.

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace millrace {

// `path` is the tokenizer.json or its folder. Unknown models, normalizers, pre-tokenizers and
// decoders are refused by name (kUnsupported); a damaged file is kCorrupt.
Result<TokenizerSpec> load_tokenizer_json(const std::string& path);

// The same from the texts of the files; an empty text is an absent file. The ids that end an answer
// are those of generation_config or, as transformers has it, else those of model_config
// (config.json).
Result<TokenizerSpec> parse_tokenizer_json(std::string_view tokenizer_json,
                                           std::string_view tokenizer_config,
                                           std::string_view generation_config,
                                           std::string_view model_config = {});

}  // namespace millrace

#pragma once
// The normalizer, pre_tokenizer, post_processor and decoder of a tokenizer.json. simdjson is known
// to this header and tokenizer_json*.cpp; nobody else in this module includes it. Any thread.

#include <simdjson.h>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace millrace {

// Fills the steps, `kind`, `prefix`, `suffix` and `strips_leading_space` of a spec whose tokens are
// already there. What is not known is refused by name with kUnsupported.
Result<void> read_tokenizer_steps(const simdjson::dom::element& document, TokenizerSpec& spec);

}  // namespace millrace

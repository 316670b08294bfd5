#pragma once
// From a conversation to the token ids of its prompt. Any thread.

#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace millrace {

// Renders and tokenizes. The tokenizer names BOS and EOS, whatever the input
// says; BOS is put in front unless the template has written it; text of the
// input never becomes a control token. Errors: those of ChatTemplate::render and of
// Tokenizer::encode_within.
Result<std::vector<TokenId>> encode_chat(const ChatTemplate& chat_template,
                                         const Tokenizer& tokenizer,
                                         ChatInput input,
                                         std::size_t max_tokens = SIZE_MAX);

}  // namespace millrace

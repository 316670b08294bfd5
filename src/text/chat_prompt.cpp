#include "text/chat_prompt.h"

namespace millrace {

Result<std::vector<TokenId>> encode_chat(const ChatTemplate& chat_template,
                                         const Tokenizer& tokenizer,
                                         ChatInput input,
                                         std::size_t max_tokens) {
  input.bos_token = tokenizer.token_text(tokenizer.bos());
  input.eos_token = tokenizer.token_text(tokenizer.eos());
  const auto pieces = chat_template.render(input);
  if (!pieces) {
    return propagate(pieces);
  }
  const bool has_bos = !input.bos_token.empty() && starts_with(*pieces, input.bos_token);
  input = {};  // it may be as large as the pieces
  return tokenizer.encode_within(max_tokens, *pieces, !has_bos);
}

}  // namespace millrace

#include "server/answer_writer.h"

#include <fmt/format.h>

#include <iterator>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace millrace {

std::string token_label(const Tokenizer& tokenizer, TokenId token) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  if (bytes.empty()) {
    return std::string(tokenizer.token_text(token));
  }
  if (is_valid_utf8(bytes)) {
    return std::string(bytes);
  }
  std::string label = "bytes:";
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(label), "\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return label;
}

std::string usage_json(const Usage& usage) {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{}}},)"
                     R"("completion_tokens_details":{{"accepted_prediction_tokens":{},)"
                     R"("rejected_prediction_tokens":{}}}}})",
                     usage.prompt_tokens,
                     usage.completion_tokens,
                     usage.prompt_tokens + usage.completion_tokens,
                     usage.cached_tokens,
                     usage.accepted_drafts,
                     usage.rejected_drafts);
}

const char* finish_reason_name(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

}  // namespace millrace

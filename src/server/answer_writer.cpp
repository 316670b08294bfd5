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

std::string usage_json(const AnswerUsage& usage) {
  const Usage& tokens = usage.tokens;
  std::string json = fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                                 R"("prompt_tokens_details":{{"cached_tokens":{}}},)"
                                 R"("completion_tokens_details":{{"accepted_prediction_tokens":{},)"
                                 R"("rejected_prediction_tokens":{}}})",
                                 tokens.prompt_tokens,
                                 tokens.completion_tokens,
                                 tokens.prompt_tokens + tokens.completion_tokens,
                                 tokens.cached_tokens,
                                 tokens.accepted_drafts,
                                 tokens.rejected_drafts);
  if (usage.response_cache) {
    json += fmt::format(R"(,"response_cache":"{}")", cache_outcome_name(*usage.response_cache));
  }
  return json + '}';
}

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kTimeout:
      return "timeout";
    case FinishReason::kStop:
    case FinishReason::kCancelled:
    case FinishReason::kError:
      break;
  }
  return "stop";
}

}  // namespace millrace

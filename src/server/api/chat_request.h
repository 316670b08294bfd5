#pragma once
// The typed form of a /v1/chat/completions body, and of /tokenize with messages. Pure functions.

#include <string>
#include <vector>

#include "server/generation.h"
#include "text/chat_template.h"

namespace millrace {

class Engine;

struct ChatRequest {
  GenerationFields fields;
  ChatInput conversation;  // the fields that the chat template sees
  std::string prediction;  // what the answer is expected to be
};

void read_conversation(FieldReader& reader, ChatInput& conversation);
ApiResult<ChatRequest> parse_chat_request(const Value& body);

// Renders and tokenizes: message text never becomes control tokens. The conversation is freed on
// the way. More than max_tokens are a mistake.
ApiResult<std::vector<TokenId>> encode_conversation(const Engine& engine,
                                                    ChatInput conversation,
                                                    int64_t max_tokens);

}  // namespace millrace

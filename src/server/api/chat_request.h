#pragma once
// The typed form of a /v1/chat/completions body, and of /tokenize with messages. Pure functions.

#include <string>
#include <variant>
#include <vector>

#include "server/generation.h"
#include "text/chat_template.h"

namespace millrace {

class Engine;

// The fields that the chat template sees.
struct Conversation {
  Value messages;
  Value tools;
  Value documents;
  Value kwargs;  // chat_template_kwargs, a dict or none
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

struct ChatRequest {
  GenerationFields fields;
  Conversation conversation;
  std::vector<std::string> unknown_fields;
};

void read_conversation(FieldReader& reader, Conversation& conversation);
std::variant<ChatRequest, ApiError> parse_chat_request(const Value& body);

// Renders and tokenizes: message text never becomes control tokens.
std::variant<std::vector<TokenId>, ApiError> encode_conversation(const Engine& engine,
                                                                 const Conversation& conversation);

}  // namespace millrace

// POST /v1/chat/completions.

#include <utility>

#include "engine/engine.h"
#include "server/api/chat_request.h"
#include "server/api/endpoints.h"
#include "server/service.h"

namespace millrace {

Reply create_chat_completion(Call& call) {
  auto body = parse_body(call.request);
  if (const auto* error = std::get_if<ApiError>(&body)) {
    return error_reply(*error);
  }
  auto parsed = parse_chat_request(std::get<Value>(body));
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    return error_reply(*error);
  }
  auto& request = std::get<ChatRequest>(parsed);
  Service& service = call.service;
  GenerationFields& fields = request.fields;
  if (fields.model.empty()) {
    fields.model = service.options().model_names.front();
  }
  if (!service.serves_model(fields.model)) {
    return error_reply(service.unknown_model(fields.model));
  }
  service.warn_unknown_fields(call.request.path, request.unknown_fields);
  auto encoded = encode_conversation(*service.engine(), request.conversation);
  if (const auto* error = std::get_if<ApiError>(&encoded)) {
    return error_reply(*error);
  }
  AnswerOptions options;
  options.n_choices = fields.request.n;
  options.streams = fields.streams;
  options.include_usage = fields.include_usage || service.options().always_usage;
  options.has_logprobs = fields.request.n_logprobs.has_value();
  const AnswerHead head{make_answer_id("chatcmpl-"), unix_seconds(), fields.model};
  auto writer = make_chat_writer(head, options, service.engine()->tokenizer());
  std::vector<std::vector<TokenId>> prompts;
  prompts.push_back(std::move(std::get<std::vector<TokenId>>(encoded)));
  return answer_generation(call, fields, std::move(prompts), std::move(writer));
}

}  // namespace millrace

// POST /v1/chat/completions.

#include <utility>

#include "engine/engine.h"
#include "server/api/chat_request.h"
#include "server/api/endpoints.h"
#include "server/service.h"

namespace millrace {

ApiResult<Reply> create_chat_completion(Call& call) {
  const auto body = parse_body(call.request.body);
  if (!body) {
    return tl::unexpected(body.error());
  }
  auto request = parse_chat_request(*body);
  if (!request) {
    return tl::unexpected(request.error());
  }
  Service& service = call.service;
  GenerationFields& fields = request->fields;
  auto accepted = service.accept(call.request.path, fields.model, request->unknown_fields);
  if (!accepted) {
    return tl::unexpected(accepted.error());
  }
  auto prompt = encode_conversation(*service.engine(), request->conversation);
  if (!prompt) {
    return tl::unexpected(prompt.error());
  }
  const AnswerHead head = make_answer_head("chatcmpl-", fields);
  auto writer = make_chat_writer(
      head, answer_options(service, fields, fields.request.n), service.engine()->tokenizer());
  std::vector<std::vector<TokenId>> prompts;
  prompts.push_back(std::move(*prompt));
  return answer_generation(call, fields, "messages", std::move(prompts), std::move(writer));
}

}  // namespace millrace

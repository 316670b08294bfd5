// POST /v1/chat/completions.

#include <utility>

#include "engine/engine.h"
#include "server/api/chat_request.h"
#include "server/api/endpoints.h"
#include "server/api/read_request.h"

namespace millrace {

ApiResult<Reply> create_chat_completion(Call& call) {
  auto request = read_request(call, parse_chat_request);
  if (!request) {
    return tl::unexpected(request.error());
  }
  const Engine& engine = *call.service.engine();
  auto prompt =
      encode_conversation(engine, std::move(request->conversation), engine.info().max_model_len);
  if (!prompt) {
    return tl::unexpected(prompt.error());
  }
  GenerationFields& fields = request->fields;
  auto prediction = engine.tokenizer().encode_within(
      static_cast<size_t>(engine.info().max_model_len), request->prediction, false, false);
  if (!prediction) {
    return tl::unexpected(too_long(prediction.error(), "prediction"));
  }
  fields.request.prediction = std::move(*prediction);
  const AnswerHead head = make_answer_head("chatcmpl-", fields);
  std::vector<std::vector<TokenId>> prompts;
  prompts.push_back(std::move(*prompt));
  auto requests = make_requests(call, fields, "messages", std::move(prompts));
  if (!requests) {
    return tl::unexpected(std::move(requests.error()));
  }
  auto writer = make_chat_writer(
      head, answer_options(call.service, fields, fields.request.n), engine.tokenizer());
  return answer_generation(call, fields, std::move(*requests), std::move(writer));
}

}  // namespace millrace

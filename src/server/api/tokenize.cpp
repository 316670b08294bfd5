// POST /tokenize: {"prompt": TEXT} or {"messages": [...]} to ids; the fields are vLLM's.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "engine/engine.h"
#include "server/api/chat_request.h"
#include "server/api/endpoints.h"
#include "server/json_text.h"
#include "server/service.h"

namespace millrace {
namespace {

struct TokenizeRequest {
  std::string model;
  std::string prompt;
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
  bool return_token_strs = false;
  bool has_messages = false;
  ChatInput conversation;
};

TokenizeRequest read_request(FieldReader& reader) {
  TokenizeRequest request;
  reader.read("model", request.model);
  request.has_messages = reader.take("messages") != nullptr;
  const bool has_prompt = reader.take("prompt") != nullptr;
  if (has_prompt == request.has_messages) {
    reader.fail_at("prompt", "expected either prompt or messages");
  } else if (has_prompt) {
    reader.read("prompt", request.prompt);
  } else {
    read_conversation(reader, request.conversation);
  }
  reader.read("add_special_tokens", request.add_special_tokens);
  reader.read("parse_special_tokens", request.parse_special_tokens);
  reader.read("return_token_strs", request.return_token_strs);
  return request;
}

std::string token_strings(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string json = "[";
  for (const TokenId id : ids) {
    json += json.size() == 1 ? "" : ",";
    append_json_string(json, token_label(tokenizer, id));
  }
  return json + "]";
}

}  // namespace

ApiResult<Reply> tokenize(Call& call) {
  const auto body = parse_body(call.request.body);
  if (!body) {
    return tl::unexpected(body.error());
  }
  FieldReader reader(*body);
  TokenizeRequest request = read_request(reader);
  if (reader.error()) {
    return tl::unexpected(*reader.error());
  }
  auto accepted = call.service.accept(call.request.path, request.model, reader.unread());
  if (!accepted) {
    return tl::unexpected(accepted.error());
  }
  const Engine& engine = *call.service.engine();
  std::vector<TokenId> ids;
  if (request.has_messages) {
    auto encoded = encode_conversation(engine, request.conversation);
    if (!encoded) {
      return tl::unexpected(encoded.error());
    }
    ids = std::move(*encoded);
  } else {
    ids = engine.tokenizer().encode(
        request.prompt, request.add_special_tokens, request.parse_special_tokens);
  }
  Reply reply;
  reply.response.body =
      fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":{}}})",
                  ids.size(),
                  engine.info().max_model_len,
                  fmt::join(ids, ","),
                  request.return_token_strs ? token_strings(engine.tokenizer(), ids) : "null");
  return reply;
}

}  // namespace millrace

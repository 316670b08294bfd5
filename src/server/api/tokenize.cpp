// POST /tokenize: {"prompt": TEXT} or {"messages": [...]} to ids; the fields are vLLM's.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "engine/engine.h"
#include "server/api/chat_request.h"
#include "server/api/endpoints.h"
#include "server/api/read_request.h"
#include "server/json_text.h"

namespace millrace {
namespace {

// Enough to count what no window holds; the answer takes some bytes a token.
constexpr int64_t kMaxTokens = int64_t{1} << 20;

struct TokenizeRequest {
  BodyFields fields;
  Value prompt;  // a string
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
  bool return_token_strs = false;
  bool has_messages = false;
  ChatInput conversation;
};

ApiResult<TokenizeRequest> parse_tokenize_request(const Value& body) {
  FieldReader reader(body);
  TokenizeRequest request;
  reader.read("model", request.fields.model);
  request.has_messages = reader.take("messages") != nullptr;
  const Value* prompt = reader.take("prompt");
  const bool has_content = prompt == nullptr && reader.take("content") != nullptr;
  if ((prompt != nullptr) == request.has_messages) {
    reader.fail_at("prompt",
                   has_content
                       ? "expected either prompt or messages (content is called prompt here)"
                       : "expected either prompt or messages",
                   prompt == nullptr ? ApiCode::kMissingRequiredParameter : ApiCode::kInvalidValue);
  } else if (prompt != nullptr && !prompt->is_string()) {
    reader.fail_expecting("prompt", "a string", prompt);
  } else if (prompt != nullptr) {
    request.prompt = *prompt;
  } else {
    read_conversation(reader, request.conversation);
  }
  reader.read("add_special_tokens", request.add_special_tokens);
  reader.read("parse_special_tokens", request.parse_special_tokens);
  reader.read("return_token_strs", request.return_token_strs);
  return reader.finish(std::move(request));
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
  auto request = read_request(call, parse_tokenize_request);
  if (!request) {
    return tl::unexpected(request.error());
  }
  const Engine& engine = *call.service.engine();
  std::vector<TokenId> ids;
  if (request->has_messages) {
    auto encoded = encode_conversation(engine, std::move(request->conversation), kMaxTokens);
    if (!encoded) {
      return tl::unexpected(encoded.error());
    }
    ids = std::move(*encoded);
  } else {
    auto encoded = engine.tokenizer().encode_within(kMaxTokens,
                                                    request->prompt.as_string(),
                                                    request->add_special_tokens,
                                                    request->parse_special_tokens);
    if (!encoded) {
      return tl::unexpected(too_long(encoded.error(), "prompt"));
    }
    ids = std::move(*encoded);
  }
  Reply reply;
  reply.response.body =
      fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":{}}})",
                  ids.size(),
                  engine.info().max_model_len,
                  fmt::join(ids, ","),
                  request->return_token_strs ? token_strings(engine.tokenizer(), ids) : "null");
  return reply;
}

}  // namespace millrace

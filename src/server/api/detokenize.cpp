// POST /detokenize: {"tokens": [ids]} to {"prompt": TEXT}; the fields are vLLM's.

#include <fmt/format.h>

#include "engine/engine.h"
#include "server/api/endpoints.h"
#include "server/api/read_request.h"
#include "server/field_reader.h"
#include "server/json_text.h"

namespace millrace {
namespace {

// A token can have a hundred bytes, so a body of ids could ask for a hundred times its size.
constexpr size_t kMaxTokens = size_t{1} << 18;

struct DetokenizeRequest {
  BodyFields fields;
  std::vector<TokenId> tokens;
  bool skips_control = false;
};

ApiResult<DetokenizeRequest> parse_detokenize_request(const Value& body, int32_t n_vocab) {
  FieldReader reader(body);
  DetokenizeRequest request;
  reader.read("model", request.fields.model);
  reader.read("skip_special_tokens", request.skips_control);
  const Value* tokens = reader.take("tokens");
  if (tokens == nullptr || !is_array(*tokens)) {
    reader.fail_expecting("tokens", "an array of token ids", tokens);
  } else {
    request.tokens = take_ids(reader, "tokens", *tokens, n_vocab - 1);
  }
  if (request.tokens.size() > kMaxTokens) {
    reader.fail_at(
        "tokens",
        fmt::format("expected at most {} token ids, got {}", kMaxTokens, request.tokens.size()));
  }
  return reader.finish(std::move(request));
}

}  // namespace

ApiResult<Reply> detokenize(Call& call) {
  const Tokenizer& tokenizer = call.service.engine()->tokenizer();
  const auto request = read_request(call, [&](const Value& body) {
    return parse_detokenize_request(body, tokenizer.vocab_size());
  });
  if (!request) {
    return tl::unexpected(request.error());
  }
  Reply reply;
  reply.response.body =
      fmt::format(R"({{"prompt":{}}})",
                  json_string(tokenizer.decode(request->tokens, !request->skips_control)));
  return reply;
}

}  // namespace millrace

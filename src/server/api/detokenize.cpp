// POST /detokenize: {"tokens": [ids]} to {"prompt": TEXT}; the fields are vLLM's.

#include <fmt/format.h>

#include "engine/engine.h"
#include "server/api/endpoints.h"
#include "server/field_reader.h"
#include "server/json_text.h"
#include "server/service.h"

namespace millrace {
namespace {

std::vector<TokenId> read_tokens(FieldReader& reader, int32_t n_vocab) {
  std::vector<TokenId> ids;
  const Value* tokens = reader.take("tokens");
  if (tokens == nullptr || !tokens->is_list()) {
    reader.fail_at("tokens",
                   fmt::format("expected an array of token ids, got {}",
                               tokens == nullptr ? "nothing" : describe(*tokens)));
    return ids;
  }
  for (size_t i = 0; i < tokens->items().size(); ++i) {
    const Value& token = tokens->items()[i];
    if (!token.is_int() || token.as_int() < 0 || token.as_int() >= n_vocab) {
      reader.fail_at(
          fmt::format("tokens[{}]", i),
          fmt::format("expected an id from 0 to {}, got {}", n_vocab - 1, describe(token)));
      break;
    }
    ids.push_back(static_cast<TokenId>(token.as_int()));
  }
  return ids;
}

}  // namespace

ApiResult<Reply> detokenize(Call& call) {
  const auto body = parse_body(call.request.body);
  if (!body) {
    return tl::unexpected(body.error());
  }
  const Tokenizer& tokenizer = call.service.engine()->tokenizer();
  FieldReader reader(*body);
  std::string model;
  reader.read("model", model);
  bool skips_control = false;
  reader.read("skip_special_tokens", skips_control);
  const std::vector<TokenId> ids = read_tokens(reader, tokenizer.vocab_size());
  if (reader.error()) {
    return tl::unexpected(*reader.error());
  }
  if (auto accepted = call.service.accept(call.request.path, model, reader.unread()); !accepted) {
    return tl::unexpected(accepted.error());
  }
  Reply reply;
  reply.response.body =
      fmt::format(R"({{"prompt":{}}})", json_string(tokenizer.decode(ids, !skips_control)));
  return reply;
}

}  // namespace millrace

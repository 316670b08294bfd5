#include "server/warm_prompt.h"

#include <string>
#include <string_view>
#include <utility>

#include "engine/engine.h"
#include "server/api/chat_request.h"
#include "server/field_reader.h"
#include "server/service.h"

namespace millrace {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Most messages begin with the field already.
tl::unexpected<Error> refuse(const ApiError& error) {
  return error.message.starts_with(error.param)
             ? fail(ErrorCode::kInvalidArgument, "{}", error.message)
             : fail(ErrorCode::kInvalidArgument, "{}: {}", error.param, error.message);
}

}  // namespace

Result<Request> parse_warm_prompt(const Service& service,
                                  const Engine& engine,
                                  std::string_view line) {
  if (line.starts_with(kByteOrderMark)) {  // how some editors begin a file
    line.remove_prefix(kByteOrderMark.size());
  }
  const int64_t max_tokens = engine.info().max_model_len - 1;
  Request request;
  if (line.find_first_not_of(" \t") == line.find('{')) {
    const auto body = parse_body(std::string(line));
    if (!body) {
      return refuse(body.error());
    }
    auto chat = parse_chat_request(*body);
    if (!chat) {
      return refuse(chat.error());
    }
    if (const std::string& model = chat->fields.model;
        !model.empty() && !service.serves_model(model)) {
      return refuse(service.unknown_model(model));
    }
    auto prompt = encode_conversation(engine, std::move(chat->conversation), max_tokens);
    if (!prompt) {
      return refuse(prompt.error());
    }
    request.cache_salt = std::move(chat->fields.request.cache_salt);
    request.prompt = std::move(*prompt);
  } else {
    auto prompt =
        engine.tokenizer().encode_within(static_cast<size_t>(max_tokens), line, true, true);
    if (!prompt) {
      return propagate(prompt);
    }
    request.prompt = std::move(*prompt);
  }
  request.max_tokens = 1;
  request.is_speculative = false;
  return request;
}

}  // namespace millrace

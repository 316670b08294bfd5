#include "server/api/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/engine.h"
#include "server/unsupported_fields.h"
#include "text/chat_prompt.h"

namespace millrace {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {
    "system", "developer", "user", "assistant", "tool", "function"};

// Text parts only; the path of what is wrong is "messages[1].content[0].type".
void check_parts(FieldReader& reader, const Value& parts, const std::string& path) {
  for (size_t i = 0; i < parts.items().size(); ++i) {
    const Value& part = parts.items()[i];
    const std::string at = fmt::format("{}[{}]", path, i);
    const Value* type = part.find("type");
    const Value* text = part.find("text");
    if (!part.is_dict()) {
      reader.fail_expecting(at, "an object", &part);
    } else if (type == nullptr || !type->is_string()) {
      reader.fail_expecting(at + ".type", "\"text\"", type);
    } else if (type->as_string() != "text") {
      reader.fail_at(
          at + ".type",
          fmt::format("expected \"text\", the only kind of part this model reads, got {}",
                      describe(*type)));
    } else if (text == nullptr || !text->is_string()) {
      reader.fail_expecting(at + ".text", "a string", text);
    }
  }
}

void check_tool_calls(FieldReader& reader, const Value& calls, const std::string& path) {
  if (!calls.is_list()) {
    reader.fail_expecting(path, "an array", &calls);
    return;
  }
  for (size_t i = 0; i < calls.items().size(); ++i) {
    const Value* function = calls.items()[i].find("function");
    if (function == nullptr || !function->is_dict()) {
      reader.fail_expecting(fmt::format("{}[{}].function", path, i), "an object", function);
      return;
    }
    const Value* name = function->find("name");
    if (name == nullptr || !name->is_string()) {
      reader.fail_expecting(fmt::format("{}[{}].function.name", path, i), "a string", name);
      return;
    }
  }
}

void check_message(FieldReader& reader, const Value& message, const std::string& path) {
  if (!message.is_dict()) {
    reader.fail_expecting(path, "an object", &message);
    return;
  }
  const Value* role = message.find("role");
  constexpr std::string_view kRoleNames = "system, developer, user, assistant or tool";
  if (role == nullptr || !role->is_string()) {
    reader.fail_expecting(path + ".role", kRoleNames, role);
    return;
  }
  if (std::find(kRoles.begin(), kRoles.end(), role->as_string()) == kRoles.end()) {
    reader.fail_at(path + ".role", fmt::format("expected {}, got {}", kRoleNames, describe(*role)));
    return;
  }
  const Value* calls = message.find("tool_calls");
  if (calls != nullptr && !calls->is_none()) {
    check_tool_calls(reader, *calls, path + ".tool_calls");
  }
  const Value* content = message.find("content");
  if (content == nullptr || content->is_none()) {
    if (role->as_string() != "assistant") {
      reader.fail_expecting(path + ".content", "text or an array of parts", nullptr);
    }
  } else if (content->is_list()) {
    check_parts(reader, *content, path + ".content");
  } else if (!content->is_string()) {
    reader.fail_expecting(path + ".content", "text or an array of parts", content);
  }
}

void read_messages(FieldReader& reader, ChatInput& conversation) {
  const Value* messages = reader.take("messages");
  constexpr std::string_view kExpected = "an array of at least one message";
  if (messages == nullptr || !messages->is_list()) {
    reader.fail_expecting("messages", kExpected, messages);
    return;
  }
  if (messages->items().empty()) {
    reader.fail_at("messages", fmt::format("expected {}, got an empty array", kExpected));
    return;
  }
  for (size_t i = 0; i < messages->items().size() && !reader.has_failed(); ++i) {
    check_message(reader, messages->items()[i], fmt::format("messages[{}]", i));
  }
  conversation.messages = *messages;
}

void read_tools(FieldReader& reader, ChatInput& conversation) {
  const Value* tools = reader.take("tools");
  if (tools == nullptr) {
    return;
  }
  if (!tools->is_list()) {
    reader.fail_expecting("tools", "an array", tools);
    return;
  }
  for (size_t i = 0; i < tools->items().size(); ++i) {
    const Value& tool = tools->items()[i];
    const Value* function = tool.find("function");
    if (tool.string_or("type", "") != "function" || function == nullptr || !function->is_dict() ||
        function->string_or("name", "").empty()) {
      reader.fail_at(fmt::format("tools[{}]", i),
                     "expected {\"type\": \"function\", \"function\": {\"name\": ...}}");
      return;
    }
  }
  if (!tools->items().empty()) {
    conversation.tools = *tools;
  }
}

void read_tool_choice(FieldReader& reader, ChatInput& conversation) {
  const Value* choice = reader.take("tool_choice");
  if (choice == nullptr) {
    return;
  }
  if (choice->is_string() && choice->as_string() == "none") {
    conversation.tools = Value();
  } else if (!choice->is_string() || choice->as_string() != "auto") {
    reader.refuse("tool_choice", "only \"auto\" and \"none\" are supported");
  }
}

void read_logprobs(FieldReader& reader, Request& request) {
  bool has_logprobs = false;
  reader.read("logprobs", has_logprobs);
  std::optional<int64_t> n_top;
  reader.read("top_logprobs", 0, kMaxTopLogprobs, n_top);
  if (n_top.value_or(0) > 0 && !has_logprobs) {
    reader.fail_at("top_logprobs", "needs \"logprobs\": true");
  }
  if (has_logprobs) {
    request.n_logprobs = static_cast<int>(n_top.value_or(0));
  }
}

// What the request itself sets may not come in by the back door.
constexpr std::array<std::string_view, 7> kReservedVariables = {"messages",
                                                                "tools",
                                                                "documents",
                                                                "add_generation_prompt",
                                                                "continue_final_message",
                                                                "bos_token",
                                                                "eos_token"};

void read_template_variables(FieldReader& reader, ChatInput& conversation) {
  conversation.extra = Value::dict({});
  const Value* variables = reader.take("chat_template_kwargs");
  if (variables == nullptr) {
    return;
  }
  if (!variables->is_dict()) {
    reader.fail_expecting("chat_template_kwargs", "an object", variables);
    return;
  }
  for (const std::string_view name : kReservedVariables) {
    if (variables->find(name) != nullptr) {
      reader.fail_at(fmt::format("chat_template_kwargs.{}", name),
                     "is set by the request itself and cannot be replaced");
      return;
    }
  }
  conversation.extra = *variables;
}

void refuse_other_values(FieldReader& reader, const ChatInput& conversation) {
  refuse_unsupported(reader, unsupported_in_chat());
  bool is_parallel = true;
  reader.read("parallel_tool_calls", is_parallel);
  if (!is_parallel && conversation.tools.is_list()) {
    reader.refuse("parallel_tool_calls", "false is not supported");
  }
  reader.ignore({"store"});  // a wish to look the answer up later
}

// A string, or an array of text parts.
std::string joined_text(const Value& content) {
  if (content.is_string()) {
    return content.as_string();
  }
  std::string text;
  for (const Value& part : content.items()) {
    text += part.find("text")->as_string();
  }
  return text;
}

void read_prediction(FieldReader& reader, std::string& prediction) {
  const Value* value = reader.take("prediction");
  if (value == nullptr) {
    return;
  }
  const Value* content = value->is_dict() ? value->find("content") : nullptr;
  if (content == nullptr || value->string_or("type", "") != "content") {
    reader.fail_expecting("prediction", R"({"type": "content", "content": ...})", value);
  } else if (content->is_list()) {
    check_parts(reader, *content, "prediction.content");
  } else if (!content->is_string()) {
    reader.fail_expecting("prediction.content", "text or an array of parts", content);
  }
  if (!reader.has_failed()) {
    prediction = joined_text(*content);
  }
}

}  // namespace

void read_conversation(FieldReader& reader, ChatInput& conversation) {
  read_messages(reader, conversation);
  read_tools(reader, conversation);
  read_tool_choice(reader, conversation);
  reader.read("add_generation_prompt", conversation.add_generation_prompt);
  reader.read("continue_final_message", conversation.continue_final_message);
  if (conversation.continue_final_message) {
    const Value* asked = reader.take("add_generation_prompt");
    if (asked != nullptr && conversation.add_generation_prompt) {
      reader.fail_at("continue_final_message", "excludes \"add_generation_prompt\": true");
    }
    conversation.add_generation_prompt = false;
  }
  if (const Value* documents = reader.take("documents")) {
    if (!documents->is_list()) {
      reader.fail_expecting("documents", "an array", documents);
    }
    conversation.documents = *documents;
  }
  read_template_variables(reader, conversation);
  std::string effort;
  reader.read("reasoning_effort", effort);
  if (!effort.empty() && conversation.extra.find("reasoning_effort") == nullptr) {
    conversation.extra.mutable_dict().set("reasoning_effort", effort);
  }
}

ApiResult<ChatRequest> parse_chat_request(const Value& body) {
  FieldReader reader(body);
  ChatRequest request;
  read_generation_fields(reader, request.fields);
  read_conversation(reader, request.conversation);
  read_max_tokens(reader, request.fields, 1);
  read_logprobs(reader, request.fields.request);
  read_prediction(reader, request.prediction);
  refuse_other_values(reader, request.conversation);
  return reader.finish(std::move(request));
}

ApiResult<std::vector<TokenId>> encode_conversation(const Engine& engine,
                                                    ChatInput conversation,
                                                    int64_t max_tokens) {
  const ChatTemplate* chat_template = engine.chat_template();
  if (chat_template == nullptr) {
    const std::string& reason = engine.files().chat_template_error;
    return tl::unexpected(ApiError{ApiCode::kNoChatTemplate,
                                   reason.empty()
                                       ? "this model has no chat template: use /v1/completions"
                                       : "the model's chat template was refused: " + reason,
                                   "messages"});
  }
  auto ids = encode_chat(
      *chat_template, engine.tokenizer(), std::move(conversation), static_cast<size_t>(max_tokens));
  if (!ids && ids.error().code == ErrorCode::kContextLength) {
    return tl::unexpected(too_long(ids.error(), "messages"));
  }
  if (!ids) {
    ApiError error = to_api_error(ids.error());
    error.param = "messages";
    if (ids.error().code == ErrorCode::kResourceExhausted) {
      error.code = ApiCode::kTemplateLimit;  // no use in trying again
    }
    return tl::unexpected(std::move(error));
  }
  return std::move(*ids);
}

}  // namespace millrace

#include "text/chat_adapter.h"

#include <initializer_list>
#include <optional>

namespace millrace {
namespace {

// Texts that no template contains by itself.
constexpr const char* kSystemNeedle = "qz-system-needle";
constexpr const char* kUserNeedle = "qz-user-needle";
constexpr const char* kAnswerNeedle = "qz-answer-needle";
constexpr const char* kToolNeedle = "qz_tool_needle";
constexpr const char* kArgumentNeedle = "qz_argument_needle";
constexpr const char* kResultNeedle = "qz-result-needle";
constexpr const char* kThoughtNeedle = "qz-thought-needle";

Value message(std::string_view role, Value content) {
  return Value::dict({{"role", Value(role)}, {"content", std::move(content)}});
}

Value text_parts(const char* text) {
  return Value::list({Value::dict({{"type", "text"}, {"text", text}})});
}

Value tool_call_message(Value content, Value arguments) {
  Value call = Value::dict(
      {{"id", "call0000a"},
       {"type", "function"},
       {"function", Value::dict({{"name", kToolNeedle}, {"arguments", std::move(arguments)}})}});
  Value answer = message("assistant", std::move(content));
  answer.mutable_dict().set(Value("tool_calls"), Value::list({std::move(call)}));
  return answer;
}

Value tool_definition() {
  return Value::dict(
      {{"type", "function"},
       {"function",
        Value::dict({{"name", kToolNeedle},
                     {"description", "probe"},
                     {"parameters",
                      Value::dict({{"type", "object"},
                                   {"properties",
                                    Value::dict({{kArgumentNeedle,
                                                  Value::dict({{"type", "string"},
                                                               {"description", "probe"}})}})},
                                   {"required", Value::list({kArgumentNeedle})}})}})}});
}

class Prober {
 public:
  explicit Prober(const ProbeRender& render) : render_(render) {}

  ChatCapabilities run() {
    const Value user = message("user", kUserNeedle);
    ChatCapabilities found;
    found.string_content = contains({user}, kUserNeedle);
    found.content_parts = probe_parts();
    // Everything else is probed with the content form that works.
    as_parts_ = !found.string_content && found.content_parts;
    found.system_role = contains({message("system", content(kSystemNeedle)), ask()}, kSystemNeedle);
    ChatInput with_tools = input({ask()});
    with_tools.tools = Value::list({tool_definition()});
    found.tools = contains_text(with_tools, kToolNeedle);
    probe_tool_calls(found);
    Value thinking = message("assistant", content(kAnswerNeedle));
    thinking.mutable_dict().set(Value("reasoning_content"), Value(kThoughtNeedle));
    ChatInput with_thought = input({ask(), thinking});
    with_thought.add_generation_prompt = false;
    found.reasoning_content = contains_text(with_thought, kThoughtNeedle);
    probe_thinking(found);
    return found;
  }

 private:
  Value content(const char* text) const { return as_parts_ ? text_parts(text) : Value(text); }
  Value ask() const { return message("user", content(kUserNeedle)); }

  // A template that only knows strings may print the list as it stands.
  bool probe_parts() const {
    const Result<std::string> text = render_(input({message("user", text_parts(kUserNeedle))}));
    return text && text->find(kUserNeedle) != std::string::npos &&
           text->find("'type': 'text'") == std::string::npos &&
           text->find("\"type\": \"text\"") == std::string::npos;
  }

  static ChatInput input(std::vector<Value> messages) {
    ChatInput input;
    input.messages = Value::list(std::move(messages));
    input.bos_token = "<qz-bos>";
    input.eos_token = "<qz-eos>";
    input.now = CivilTime{2025, 1, 2, 3, 4, 5};
    return input;
  }

  bool contains(std::vector<Value> messages, const char* needle) const {
    return contains_text(input(std::move(messages)), needle);
  }

  bool contains_text(const ChatInput& input, const char* needle) const {
    const Result<std::string> text = render_(input);
    return text && text->find(needle) != std::string::npos;
  }

  ChatInput with_call(Value call_content, Value arguments) const {
    ChatInput probe =
        input({ask(), tool_call_message(std::move(call_content), std::move(arguments))});
    probe.tools = Value::list({tool_definition()});
    probe.add_generation_prompt = false;
    return probe;
  }

  void probe_tool_calls(ChatCapabilities& found) const {
    const Value object = Value::dict({{kArgumentNeedle, "v"}});
    const Value text = Value(std::string("{\"") + kArgumentNeedle + "\": \"v\"}");
    const Result<std::string> from_object = render_(with_call("", object));
    const Result<std::string> from_text = render_(with_call("", text));
    const auto shows = [](const Result<std::string>& rendered, const std::string& needle) {
      return rendered && rendered->find(needle) != std::string::npos;
    };
    // Text that went through tojson again shows its quotes escaped; an object that was printed
    // without tojson shows Python's quotes.
    const std::string name = kArgumentNeedle;
    const bool object_works = shows(from_object, name) && !shows(from_object, "'" + name + "'");
    const bool text_works = shows(from_text, name) && !shows(from_text, "\\\"" + name);
    found.tool_calls = shows(from_object, kToolNeedle) || shows(from_text, kToolNeedle);
    found.object_arguments = object_works && !text_works;
    found.string_arguments = text_works && !object_works;
    const Value arguments = found.string_arguments ? text : object;
    const Result<std::string> empty = render_(with_call("", arguments));
    const Result<std::string> null = render_(with_call(Value(), arguments));
    found.null_content = empty && null && *empty == *null;
    Value result = message("tool", content(kResultNeedle));
    result.mutable_dict().set(Value("tool_call_id"), Value("call0000a"));
    result.mutable_dict().set(Value("name"), Value(kToolNeedle));
    ChatInput with_result = with_call("", arguments);
    with_result.messages.append(std::move(result));
    found.tool_results = contains_text(with_result, kResultNeedle);
  }

  void probe_thinking(ChatCapabilities& found) const {
    ChatInput probe = input({ask()});
    probe.extra = Value::dict({{"enable_thinking", true}});
    const Result<std::string> on = render_(probe);
    probe.extra = Value::dict({{"enable_thinking", false}});
    const Result<std::string> off = render_(probe);
    found.enable_thinking = on && off && *on != *off;
  }

  const ProbeRender& render_;
  bool as_parts_ = false;
};

// The text of content: a string as it is, text parts joined. nullopt: neither.
std::optional<std::string> plain_text(const Value& content) {
  if (content.is_string()) return content.as_string();
  if (content.is_none()) return std::string();
  if (!content.is_sequence()) return std::nullopt;
  std::string text;
  for (const Value& part : content.items()) {
    const Value* part_text = part.find("text");
    if (part.is_string()) {
      text += part.as_string();
    } else if (part_text != nullptr && part_text->is_string()) {
      text += part_text->as_string();
    } else {
      return std::nullopt;
    }
  }
  return text;
}

void set(Value& object, const char* key, Value value) {
  object.mutable_dict().set(Value(key), std::move(value));
}

Result<Value> adapt_tool_call(const Value& call, const ChatCapabilities& capabilities) {
  const Value* function = call.find("function");
  const Value* arguments = function == nullptr ? nullptr : function->find("arguments");
  if (arguments == nullptr) return call;
  Value adapted_arguments = *arguments;
  if (arguments->is_string() && !capabilities.string_arguments) {
    Result<Value> parsed = parse_json(arguments->as_string());
    if (parsed && parsed->is_dict()) {
      adapted_arguments = std::move(*parsed);
    } else if (capabilities.object_arguments) {
      return fail(ErrorCode::kInvalidArgument,
                  "the arguments of a tool call must be a JSON object in text form, got '{}'",
                  arguments->as_string().substr(0, 80));
    }
  } else if (arguments->is_dict() && capabilities.string_arguments) {
    Result<MarkedText> text = dump_json(*arguments);
    if (!text) return propagate(text);
    adapted_arguments = Value(text->text());
  }
  Value adapted_function = *function;
  set(adapted_function, "arguments", std::move(adapted_arguments));
  Value adapted = call;
  set(adapted, "function", std::move(adapted_function));
  return adapted;
}

Result<Value> adapt_content(const Value& content, const ChatCapabilities& capabilities) {
  if (content.is_sequence() && !capabilities.content_parts) {
    std::optional<std::string> text = plain_text(content);
    if (!text) {
      return fail(ErrorCode::kInvalidArgument,
                  "the chat template takes text only, but a message has other content parts");
    }
    return Value(std::move(*text));
  }
  if (content.is_string() && !capabilities.string_content && capabilities.content_parts) {
    return Value::list({Value::dict({{"type", "text"}, {"text", content}})});
  }
  return content;
}

Result<Value> adapt_message(const Value& message, const ChatCapabilities& capabilities) {
  if (!message.is_dict() || message.string_or("role", "").empty()) {
    return fail(ErrorCode::kInvalidArgument, "each message must be an object with a role");
  }
  Value adapted = message;
  if (message.string_or("role", "") == "developer") set(adapted, "role", "system");
  const Value* content = message.find("content");
  if (content == nullptr || content->is_none()) {
    const bool may_be_null = capabilities.null_content && message.find("tool_calls") != nullptr;
    if (!may_be_null || content == nullptr) set(adapted, "content", may_be_null ? Value() : "");
  } else {
    Result<Value> fitting = adapt_content(*content, capabilities);
    if (!fitting) return fitting;
    set(adapted, "content", std::move(*fitting));
  }
  const Value* calls = message.find("tool_calls");
  if (calls != nullptr && calls->is_sequence()) {
    std::vector<Value> adapted_calls;
    for (const Value& call : calls->items()) {
      Result<Value> adapted_call = adapt_tool_call(call, capabilities);
      if (!adapted_call) return adapted_call;
      adapted_calls.push_back(std::move(*adapted_call));
    }
    set(adapted, "tool_calls", Value::list(std::move(adapted_calls)));
  }
  return adapted;
}

// Moves the text of system messages to the front of the first user message.
std::vector<Value> merge_system(const std::vector<Value>& messages) {
  std::string system;
  std::vector<Value> merged;
  for (const Value& message : messages) {
    if (message.string_or("role", "") != "system") {
      merged.push_back(message);
      continue;
    }
    const std::optional<std::string> text = plain_text(*message.find("content"));
    if (!text) return messages;
    system += (system.empty() ? "" : "\n\n") + *text;
  }
  if (system.empty()) return merged;
  for (Value& message : merged) {
    if (message.string_or("role", "") != "user") continue;
    const std::optional<std::string> text = plain_text(*message.find("content"));
    if (!text) return messages;
    set(message, "content", Value(system + "\n\n" + *text));
    return merged;
  }
  merged.insert(merged.begin(), message("user", Value(system)));
  return merged;
}

}  // namespace

ChatCapabilities probe_template(const ProbeRender& render) {
  return Prober(render).run();
}

Result<ChatInput> adapt_input(const ChatInput& input, const ChatCapabilities& capabilities) {
  if (!input.messages.is_sequence()) {
    return fail(ErrorCode::kInvalidArgument, "messages must be a list");
  }
  std::vector<Value> messages;
  for (const Value& message : input.messages.items()) {
    Result<Value> adapted = adapt_message(message, capabilities);
    if (!adapted) return propagate(adapted);
    messages.push_back(std::move(*adapted));
  }
  if (input.merge_system_into_user && !capabilities.system_role) messages = merge_system(messages);
  ChatInput adapted = input;
  adapted.messages = Value::list(std::move(messages));
  return adapted;
}

}  // namespace millrace

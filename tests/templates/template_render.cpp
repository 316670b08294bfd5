// Renders chat templates for comparison with the reference engine: JSON lines {"template",
// "context", "now"} come in, {"text", "pieces"} or {"error"} go out. context holds the variables.
#include <iostream>
#include <string>

#include "text/chat_template.h"

namespace {

using millrace::Value;

// The conversation's own variables have fields of their own; the rest is extra.
millrace::ChatInput input_of(const Value& context) {
  millrace::ChatInput input;
  input.extra = context;
  const auto take = [&](const char* name, Value& field) {
    if (const Value* value = context.find(name)) field = *value;
  };
  take("messages", input.messages);
  take("tools", input.tools);
  take("documents", input.documents);
  if (const Value* prompt = context.find("add_generation_prompt"); prompt && prompt->is_bool()) {
    input.add_generation_prompt = prompt->as_bool();
  }
  input.bos_token = context.string_or("bos_token", "");
  input.eos_token = context.string_or("eos_token", "");
  return input;
}

Value render(const Value& request) {
  const auto failed = [](const millrace::Error& error) {
    return Value::dict({{"error", error.message}});
  };
  auto compiled =
      millrace::ChatTemplate::compile(std::string(request.string_or("template", "")), "t");
  if (!compiled) return failed(compiled.error());
  millrace::ChatInput input;
  if (const Value* context = request.find("context")) input = input_of(*context);
  if (const auto now = millrace::parse_civil_time(request.string_or("now", "")); now) {
    input.now = *now;
  }
  auto pieces = compiled->render_verbatim(input);
  if (!pieces) return failed(pieces.error());
  std::vector<Value> marks;
  for (const auto& piece : *pieces) {
    marks.push_back(Value::list({Value(piece.text), Value(piece.is_input)}));
  }
  return Value::dict(
      {{"text", millrace::joined(*pieces)}, {"pieces", Value::list(std::move(marks))}});
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto request = millrace::parse_json(line);
    const Value answer = request
                             ? render(*request)
                             : Value::dict({{"error", "bad request: " + request.error().message}});
    const auto text = millrace::dump_json(answer);
    std::cout << (text ? text->text() : std::string("{\"error\": \"cannot dump\"}")) << std::endl;
  }
  return 0;
}

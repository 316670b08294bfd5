// Renders chat templates for comparison with the reference engine: JSON lines {"template",
// "context", "now"} come in, {"text", "pieces"} or {"error"} go out. context holds the variables.
#include <iostream>
#include <string>

#include "text/chat_template.h"

namespace {

using millrace::Value;

Value render(const Value& request) {
  const auto failed = [](const millrace::Error& error) {
    return Value::dict({{"error", error.message}});
  };
  auto compiled =
      millrace::ChatTemplate::compile(std::string(request.string_or("template", "")), "t");
  if (!compiled) return failed(compiled.error());
  millrace::ChatInput input;
  if (const Value* context = request.find("context")) input.extra = *context;
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

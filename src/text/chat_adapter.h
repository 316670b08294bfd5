#pragma once
// Fitting a conversation to a template: finding out by rendering what the template can do, and
// rewriting messages into the form it wants. Pure functions, any thread.

#include <functional>

#include "text/chat_template.h"
#include "text/jinja_ast.h"

namespace millrace {

struct TemplateProgram {
  std::string name;
  ParsedTemplate parsed;
  Dict globals;
};

using ProbeRender = std::function<Result<std::string>(const ChatInput&)>;
ChatCapabilities probe_template(const ProbeRender& render);

// developer -> system, content null -> '', arguments between text and objects, content parts
// between lists and text, and, only when asked for, system text into the first user message.
Result<ChatInput> adapt_input(const ChatInput& input, const ChatCapabilities& capabilities);

}  // namespace millrace

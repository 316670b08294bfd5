#pragma once
// Chat templates: from a conversation to prompt text in which scaffolding and input are separate.
// A ChatTemplate is immutable; any thread may render with it at the same time.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_piece.h"
#include "text/value.h"

namespace millrace {

// Wall clock time as strftime_now sees it.
struct CivilTime {
  int year = 1970;
  int month = 1;  // 1..12
  int day = 1;    // 1..31
  int hour = 0;
  int minute = 0;
  int second = 0;
};

// "2026-07-26" or "2026-07-26T12:30:00".
Result<CivilTime> parse_civil_time(std::string_view text);

struct ChatInput {
  Value messages = Value::list({});  // list of {role, content, ...} as in the OpenAI API
  Value tools;                       // list of tool definitions, or none
  Value documents;                   // list, or none
  Value extra;  // dict of chat_template_kwargs, or none; wins over nothing else
  bool add_generation_prompt = true;
  // The last message is the beginning of the answer: no generation prompt, and the prompt ends
  // where that message ends.
  bool continue_final_message = false;
  bool merge_system_into_user = false;  // for templates without a system role; only on request
  std::string bos_token;
  std::string eos_token;
  std::optional<CivilTime> now;  // pins strftime_now; otherwise local time
};

// What a template does with a message, found out by rendering probes when it is compiled.
struct ChatCapabilities {
  bool system_role = false;       // a system message reaches the prompt
  bool tools = false;             // tool definitions reach the prompt
  bool tool_calls = false;        // an assistant's tool calls reach the prompt
  bool tool_results = false;      // a message of role tool reaches the prompt
  bool object_arguments = false;  // arguments of tool calls must be objects
  bool string_arguments = false;  // arguments of tool calls must be JSON text
  bool string_content = false;    // content as a string reaches the prompt
  bool content_parts = false;     // content as a list of {type: text} parts reaches the prompt
  bool null_content = false;      // content null with tool calls renders as well as ''
  bool reasoning_content =
      false;                     // reasoning_content of the last assistant turn reaches the prompt
  bool enable_thinking = false;  // the variable enable_thinking changes the prompt
};

class ChatTemplate {
 public:
  // Parses, then probes. An empty source is kNotFound: a model without a template has no chat.
  // Tags that this engine does not know (include, import, block...) are refused by name.
  static Result<ChatTemplate> compile(std::string source, std::string name = "chat template");

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  const ChatCapabilities& capabilities() const;
  const std::string& source() const;

  // Adapts the input to the template (developer -> system, null content, argument form, content
  // parts), then renders. raise_exception gives kInvalidArgument with exactly its text, any other
  // failure names the template and the line. Strings of messages, tools, documents and extra come
  // out in pieces with is_input.
  Result<std::vector<TextPiece>> render(const ChatInput& input) const;

  // The same without adaptation: what the reference library prints for this input.
  Result<std::vector<TextPiece>> render_verbatim(const ChatInput& input) const;

  // What add_generation_prompt adds for this conversation, e.g. to see whether <think> is open.
  Result<std::string> generation_prompt(const ChatInput& input) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether scaffolding (not input) begins with this text: then the tokenizer must not add it again.
bool starts_with(std::span<const TextPiece> pieces, std::string_view token);
std::string joined(std::span<const TextPiece> pieces);

}  // namespace millrace

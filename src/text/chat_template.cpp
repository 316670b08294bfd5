#include "text/chat_template.h"

#include <charconv>
#include <ctime>

#include "base/utf8.h"
#include "text/chat_adapter.h"
#include "text/jinja_error.h"
#include "text/jinja_globals.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace millrace {
namespace {

CivilTime local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm tm = {};
  localtime_r(&now, &tm);
  return {tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec};
}

// The variables that the reference library gives to a template.
Dict make_context(const ChatInput& input, bool add_generation_prompt) {
  Dict context;
  // First, so that what follows wins: no extra variable can stand in for the conversation.
  if (input.extra.is_dict()) {
    for (const auto& [key, value] : input.extra.as_dict()) context.set(key, value.as_input());
  }
  context.set(Value("messages"), input.messages.as_input());
  context.set(Value("tools"), input.tools.as_input());
  context.set(Value("documents"), input.documents.as_input());
  context.set(Value("add_generation_prompt"), Value(add_generation_prompt));
  context.set(Value("bos_token"), Value(input.bos_token));
  context.set(Value("eos_token"), Value(input.eos_token));
  return context;
}

// Probing renders a dozen times, so each gets little: a template that needs more than this for one
// short message finds no capabilities.
TemplateLimits probe_limits() {
  TemplateLimits limits;
  limits.max_steps = 200'000;
  limits.max_bytes = uint64_t{16} << 20;
  limits.max_time = std::chrono::milliseconds(100);
  return limits;
}

Result<MarkedText> render_program(const TemplateProgram& program,
                                  const Dict& context,
                                  const CivilTime& now,
                                  const TemplateLimits& limits) {
  Runtime runtime(limits, now);
  Interpreter interpreter(runtime, context, program.globals);
  try {
    return interpreter.run(program.parsed);
  } catch (const TemplateError& error) {
    if (error.is_raised) return tl::unexpected<Error>(Error{error.code, error.message});
    return fail(error.code, "[{}] line {}: {}", program.name, interpreter.line(), error.message);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResourceExhausted, "[{}] out of memory", program.name);
  }
}

// The text where the answer starts: content of the last message, or its last text part.
Result<std::string> final_text(const Value& messages) {
  const Value* content = nullptr;
  if (messages.is_sequence() && !messages.items().empty()) {
    content = messages.items().back().find("content");
  }
  if (content != nullptr && content->is_string()) return content->as_string();
  if (content != nullptr && content->is_sequence()) {
    for (size_t i = content->items().size(); i-- > 0;) {
      const Value* text = content->items()[i].find("text");
      if (text != nullptr && text->is_string()) return text->as_string();
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "to continue the final message it needs content in text form");
}

// Cuts what the template puts after the final message, as the reference library does: at the last
// place where the stripped text stands, spaces at its end kept if the template kept them.
Result<MarkedText> cut_after_final_message(MarkedText prompt, const std::string& text) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  size_t begin = 0;
  size_t end = text.size();
  while (begin < end && is_blank(text[begin])) ++begin;
  while (end > begin && is_blank(text[end - 1])) --end;
  const std::string stripped = text.substr(begin, end - begin);
  const size_t at = prompt.text().rfind(stripped);
  if (at == std::string::npos) {
    return fail(ErrorCode::kInvalidArgument,
                "the chat template changes the final message, so it cannot be continued");
  }
  const std::string left_stripped = text.substr(begin);
  const bool keeps_end = prompt.text().compare(at, left_stripped.size(), left_stripped) == 0;
  return prompt.slice(0, at + (keeps_end ? left_stripped.size() : stripped.size()));
}

Result<MarkedText> render_marked(const TemplateProgram& program,
                                 const ChatInput& input,
                                 const TemplateLimits& limits = {}) {
  if (input.continue_final_message && input.add_generation_prompt) {
    return fail(ErrorCode::kInvalidArgument,
                "a final message is continued without a generation prompt, not with one");
  }
  Result<MarkedText> prompt = render_program(program,
                                             make_context(input, input.add_generation_prompt),
                                             input.now ? *input.now : local_time(),
                                             limits);
  if (!prompt || !input.continue_final_message) return prompt;
  Result<std::string> text = final_text(input.messages);
  if (!text) return propagate(text);
  return cut_after_final_message(std::move(*prompt), *text);
}

bool read_number(std::string_view& text, size_t n_digits, int& value) {
  if (text.size() < n_digits) return false;
  const auto parsed = std::from_chars(text.data(), text.data() + n_digits, value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + n_digits || value < 0) return false;
  text.remove_prefix(n_digits);
  return true;
}

bool skip(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

Result<CivilTime> parse_civil_time(std::string_view text) {
  const std::string_view whole = text;
  CivilTime time;
  bool is_valid = read_number(text, 4, time.year) && skip(text, '-') &&
                  read_number(text, 2, time.month) && skip(text, '-') &&
                  read_number(text, 2, time.day);
  if (is_valid && !text.empty()) {
    is_valid = (skip(text, 'T') || skip(text, ' ')) && read_number(text, 2, time.hour) &&
               skip(text, ':') && read_number(text, 2, time.minute);
    if (is_valid && skip(text, ':')) is_valid = read_number(text, 2, time.second);
    skip(text, 'Z');
  }
  is_valid = is_valid && text.empty() && time.month >= 1 && time.month <= 12 && time.day >= 1 &&
             time.day <= 31 && time.hour < 24 && time.minute < 60 && time.second < 61;
  if (!is_valid) {
    return fail(ErrorCode::kInvalidArgument,
                "expected a date like 2026-07-26 or 2026-07-26T12:30:00, got '{}'",
                whole);
  }
  return time;
}

struct ChatTemplate::State {
  std::string source;
  TemplateProgram program;
  ChatCapabilities capabilities;
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::compile(std::string source, std::string name) {
  if (source.empty()) {
    return fail(ErrorCode::kNotFound,
                "this model has no chat template; use the completions endpoint or give a template");
  }
  if (!is_valid_utf8(source)) {
    return fail(ErrorCode::kCorrupt, "[{}] the template is not valid UTF-8", name);
  }
  auto state = std::make_unique<State>();
  state->program.name = std::move(name);
  state->program.globals = make_globals();
  try {
    state->program.parsed = parse_template(source);
  } catch (const TemplateError& error) {
    return fail(error.code, "[{}] {}", state->program.name, error.message);
  }
  state->source = std::move(source);
  const TemplateProgram& program = state->program;
  bool is_exhausted = false;
  state->capabilities = probe_template([&](const ChatInput& input) -> Result<std::string> {
    if (is_exhausted) return fail(ErrorCode::kResourceExhausted, "an earlier probe took too much");
    Result<MarkedText> text = render_marked(program, input, probe_limits());
    if (text) return text->text();
    is_exhausted = text.error().code == ErrorCode::kResourceExhausted;
    return propagate(text);
  });
  return ChatTemplate(std::move(state));
}

const ChatCapabilities& ChatTemplate::capabilities() const {
  return state_->capabilities;
}
const std::string& ChatTemplate::source() const {
  return state_->source;
}

Result<std::vector<TextPiece>> ChatTemplate::render(const ChatInput& input) const {
  Result<ChatInput> adapted = adapt_input(input, state_->capabilities);
  if (!adapted) return propagate(adapted);
  return render_verbatim(*adapted);
}

Result<std::vector<TextPiece>> ChatTemplate::render_verbatim(const ChatInput& input) const {
  Result<MarkedText> text = render_marked(state_->program, input);
  if (!text) return propagate(text);
  return text->pieces();
}

Result<std::string> ChatTemplate::generation_prompt(const ChatInput& input) const {
  Result<ChatInput> adapted = adapt_input(input, state_->capabilities);
  if (!adapted) return propagate(adapted);
  adapted->continue_final_message = false;
  adapted->add_generation_prompt = true;
  Result<MarkedText> with = render_marked(state_->program, *adapted);
  if (!with) return propagate(with);
  adapted->add_generation_prompt = false;
  Result<MarkedText> without = render_marked(state_->program, *adapted);
  if (!without) return propagate(without);
  if (!with->text().starts_with(without->text())) return std::string();
  return with->text().substr(without->size());
}

bool starts_with(std::span<const TextPiece> pieces, std::string_view token) {
  return !token.empty() && !pieces.empty() && !pieces[0].is_input &&
         pieces[0].text.starts_with(token);
}

std::string joined(std::span<const TextPiece> pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace millrace

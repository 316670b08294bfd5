// Compiling and rendering a template of the size and style that current models ship.
#include <benchmark/benchmark.h>

#include <fstream>
#include <sstream>

#include "text/chat_template.h"
#include "text/jinja_parser.h"

namespace millrace {
namespace {

// Reads tests/templates/NAME from the working tree, which the bench is run in.
std::string read_template(const char* name) {
  std::ifstream file(std::string("tests/templates/") + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

ChatInput make_conversation(int n_turns) {
  std::vector<Value> messages;
  const std::string paragraph(600, 'x');
  messages.push_back(
      Value::dict({{"role", "system"}, {"content", "You are a helpful assistant."}}));
  for (int i = 0; i < n_turns; ++i) {
    const char* role = i % 2 == 0 ? "user" : "assistant";
    messages.push_back(Value::dict({{"role", role}, {"content", paragraph}}));
  }
  ChatInput input;
  input.messages = Value::list(std::move(messages));
  input.now = CivilTime{2025, 1, 2, 3, 4, 5};
  return input;
}

void parse(benchmark::State& state, const char* name) {
  const std::string source = read_template(name);
  if (source.empty()) return state.SkipWithError("run this in the root of the source tree");
  for (auto _ : state) benchmark::DoNotOptimize(parse_template(source));
}

void compile(benchmark::State& state, const char* name) {
  const std::string source = read_template(name);
  if (source.empty()) return state.SkipWithError("run this in the root of the source tree");
  for (auto _ : state) benchmark::DoNotOptimize(ChatTemplate::compile(source));
}

void render(benchmark::State& state, const char* name) {
  const std::string source = read_template(name);
  if (source.empty()) return state.SkipWithError("run this in the root of the source tree");
  const Result<ChatTemplate> chat = ChatTemplate::compile(source);
  if (!chat) return state.SkipWithError(chat.error().message.c_str());
  const ChatInput input = make_conversation(20);
  for (auto _ : state) {
    const auto pieces = chat->render(input);
    if (!pieces) return state.SkipWithError(pieces.error().message.c_str());
    benchmark::DoNotOptimize(pieces);
  }
}

BENCHMARK_CAPTURE(parse, thinking, "thinking_tools.jinja")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(compile, thinking, "thinking_tools.jinja")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, thinking_20_turns, "thinking_tools.jinja")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, typed_20_turns, "typed_macros.jinja")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, chatml_20_turns, "chatml.jinja")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace

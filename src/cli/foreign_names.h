#pragma once
// What people type who come from llama.cpp, Ollama or vLLM, and what to write here instead. Answers
// unknown commands and options; the README's table is made of the same rows. Pure functions.

#include <span>
#include <string_view>

namespace millrace {

// kServeOption: options of run, asked of serve.
enum class ForeignKind { kCommand, kOption, kServeOption, kChatCommand };

struct ForeignName {
  ForeignKind kind;
  std::string_view names;  // one or several, with ", " between
  std::string_view here;   // what to write instead, or why there is nothing
};

std::span<const ForeignName> foreign_names();

// The row that has the name, or null.
const ForeignName* find_foreign_name(ForeignKind kind, std::string_view name);

}  // namespace millrace

#pragma once
// Fields of OpenAI, vLLM and llama.cpp that would change the answer and are not supported here.
// Pure, any thread.

#include <span>
#include <string_view>

#include "server/field_reader.h"

namespace millrace {

struct UnsupportedField {
  std::string_view name;
  std::string_view neutral;  // a JSON array of values that ask for nothing, besides null and false
  std::string_view why;      // it is refused with another one
};

std::span<const UnsupportedField> unsupported_in_all();   // in every request for text
std::span<const UnsupportedField> unsupported_in_chat();  // in chat completions besides

// Refuses those that are there and ask for something.
void refuse_unsupported(FieldReader& reader, std::span<const UnsupportedField> fields);

}  // namespace millrace

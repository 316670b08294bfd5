#pragma once
// Template source to tokens, with Jinja's whitespace control under trim_blocks and lstrip_blocks.
// Pure function, any thread.

#include <string>
#include <string_view>
#include <vector>

#include "text/value.h"

namespace millrace {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kNumber,
  kOperator,  // text holds it: "+", "==", ...
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 0;
  std::string text;  // data, name, decoded string or operator
  Value number;      // int or double
};

// Throws TemplateError; the message has the line. The last token is kEnd.
std::vector<Token> lex_template(std::string_view source);

}  // namespace millrace

// Language features against what Jinja itself rendered (tests/templates/make_goldens.py).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "text/chat_template.h"

namespace millrace {
namespace {

Value read_goldens() {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/tests/templates/goldens.json");
  std::stringstream text;
  text << file.rdbuf();
  Result<Value> document = parse_json(text.str());
  EXPECT_TRUE(document) << (document ? "" : document.error().message);
  return document ? *document : Value();
}

Result<std::string> render(const std::string& source, const ChatInput& input) {
  Result<ChatTemplate> compiled = ChatTemplate::compile(source);
  if (!compiled) return propagate(compiled);
  Result<std::vector<TextPiece>> pieces = compiled->render_verbatim(input);
  if (!pieces) return propagate(pieces);
  return joined(*pieces);
}

TEST(JinjaGolden, every_feature_renders_as_in_jinja) {
  const Value goldens = read_goldens();
  ASSERT_TRUE(goldens.is_dict());
  ChatInput input;
  input.extra = *goldens.find("context");
  input.now = *parse_civil_time(goldens.string_or("now", ""));
  int n_texts = 0;
  int n_refused = 0;
  for (const Value& golden : goldens.find("cases")->items()) {
    const std::string& source = golden.items()[0].as_string();
    const std::string& kind = golden.items()[1].as_string();
    const std::string& expected = golden.items()[2].as_string();
    const Result<std::string> text = render(source, input);
    if (kind == "text") {
      ++n_texts;
      EXPECT_TRUE(text) << source << "\n" << (text ? "" : text.error().message);
      if (text) {
        EXPECT_EQ(*text, expected) << source;
      }
      continue;
    }
    ++n_refused;
    EXPECT_FALSE(text) << source << "\ngave: " << (text ? *text : "");
    if (!text && kind == "raised") {
      EXPECT_EQ(text.error().message, expected) << source;
    }
  }
  EXPECT_GT(n_texts, 150);
  EXPECT_GT(n_refused, 100);
}

}  // namespace
}  // namespace millrace

#include "text/chat_template_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::HasSubstr;

std::optional<std::string> source_of(std::optional<std::string_view> jinja,
                                     std::optional<std::string_view> config) {
  const auto source = chat_template_source(jinja, config);
  EXPECT_TRUE(source) << source.error().message;
  return source.value_or(std::nullopt);
}

TEST(ChatTemplateSource, the_file_wins_over_the_configuration) {
  const char* config = R"({"chat_template": "from the configuration"})";
  EXPECT_EQ(source_of("from the file", config), "from the file");
  EXPECT_EQ(source_of("", config), "");  // no template, said outright
  EXPECT_EQ(source_of({}, config), "from the configuration");
}

TEST(ChatTemplateSource, the_one_named_default_is_taken_of_several) {
  EXPECT_EQ(source_of({},
                      R"({"chat_template": [{"name": "rag", "template": "r"},
                                            {"name": "default", "template": "d"}]})"),
            "d");
  const auto none = chat_template_source(
      {},
      R"({"chat_template": [{"name": "rag", "template": "r"}, {"name": "x", "template": ""}]})");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.error().message, HasSubstr("rag, x"));
}

TEST(ChatTemplateSource, a_folder_may_have_none) {
  EXPECT_EQ(source_of({}, {}), std::nullopt);
  EXPECT_EQ(source_of({}, "{}"), std::nullopt);
  EXPECT_EQ(source_of({}, R"({"chat_template": null})"), std::nullopt);
  EXPECT_EQ(source_of({}, R"({"chat_template": []})"), std::nullopt);
  // As tokenizers write it: more than 64 bits.
  EXPECT_EQ(source_of({}, R"({"model_max_length": 1000000000000000019884624838656})"),
            std::nullopt);
}

TEST(ChatTemplateSource, what_is_no_template_is_corrupt) {
  for (const char* config : {"", "{", "{\"chat_template\": 7}", R"({"chat_template": ["x"]})"}) {
    const auto source = chat_template_source({}, config);
    ASSERT_FALSE(source) << config;
    EXPECT_EQ(source.error().code, ErrorCode::kCorrupt) << config;
    EXPECT_THAT(source.error().message, HasSubstr("tokenizer_config.json")) << config;
  }
}

}  // namespace
}  // namespace millrace

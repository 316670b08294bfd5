#include "server/warm_prompt.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/test_engine.h"
#include "server/service.h"

namespace millrace {
namespace {

class WarmPromptTest : public testing::Test {
 protected:
  std::string mistake(const std::string& line) {
    const auto request = parse_warm_prompt(service_, *engine_.engine, line);
    return request ? "" : request.error().message;
  }

  const TestModel model_;
  TestEngine engine_{model_.path(), EngineOptions{}};
  const Service service_{{.model_names = {"m", "other"}, .keys = {}, .allowed_origins = {}},
                         engine_.metrics};
};

TEST_F(WarmPromptTest, mistakes_name_their_field_once) {
  const std::string message = mistake(R"({"messages":[{"role":5,"content":"hi"}]})");
  EXPECT_EQ(message.rfind("messages[0].role: expected", 0), 0U) << message;
  EXPECT_EQ(message.find("messages[0].role", 1), std::string::npos) << message;
  EXPECT_NE(mistake("{").find("not JSON"), std::string::npos);
}

TEST_F(WarmPromptTest, another_model_is_refused_as_the_api_refuses_it) {
  const auto body = [](const std::string& model) {
    return R"({"messages":[{"role":"user","content":"hi"}],"model":")" + model + "\"}";
  };
  EXPECT_EQ(mistake(body("m")), "");
  EXPECT_EQ(mistake(body("other")), "");
  EXPECT_EQ(mistake(body("")), "");  // as if there were none
  EXPECT_EQ(mistake(body("M")), service_.unknown_model("M").message);
}

TEST_F(WarmPromptTest, a_byte_order_mark_is_no_part_of_a_line) {
  for (const std::string line : {R"({"messages":[{"role":"user","content":"hi"}]})", "some text"}) {
    const auto plain = parse_warm_prompt(service_, *engine_.engine, line);
    const auto marked = parse_warm_prompt(service_, *engine_.engine, "\xEF\xBB\xBF" + line);
    ASSERT_TRUE(plain) << plain.error().message;
    ASSERT_TRUE(marked) << marked.error().message;
    EXPECT_EQ(marked->prompt, plain->prompt);
  }
}

}  // namespace
}  // namespace millrace

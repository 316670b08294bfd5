#include "server/api_keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace millrace {
namespace {

TEST(ApiKeys, only_known_keys_pass) {
  const ApiKeys keys({"sk-one", "sk-second"});
  EXPECT_TRUE(keys.allows("Bearer sk-one"));
  EXPECT_TRUE(keys.allows("bearer sk-second"));
  for (const char* header : {"",
                             "sk-one",
                             "Bearer",
                             "Bearer ",
                             "Bearer sk-on",
                             "Bearer sk-onee",
                             "Bearer sk-ona",
                             "Basic sk-one",
                             "Bearer  sk-one"}) {
    EXPECT_FALSE(keys.allows(header)) << header;
  }
  EXPECT_TRUE(ApiKeys().allows(""));
}

TEST(ApiKeys, are_told_apart_by_number_and_equal_ones_are_one) {
  const ApiKeys keys({"sk-a", "sk-b", "sk-a"});
  EXPECT_EQ(keys.find("Bearer sk-a"), 0);
  EXPECT_EQ(keys.find("bearer sk-b"), 1);
  EXPECT_EQ(keys.find("Bearer sk-c"), std::nullopt);
  EXPECT_EQ(keys.find(""), std::nullopt);
  EXPECT_EQ(ApiKeys().find("Bearer sk-a"), std::nullopt);
}

class KeyFileTest : public testing::Test {
 protected:
  ~KeyFileTest() override { ::unlink(path_.c_str()); }
  Result<ApiKeys> read(std::string_view content) {
    std::ofstream(path_) << content;
    return ApiKeys::read_file(path_);
  }
  const std::string path_ = testing::TempDir() + "millrace_keys_" + std::to_string(::getpid());
};

TEST_F(KeyFileTest, holds_one_key_a_line) {
  const auto keys = read("# ours\n\nsk-a\r\nsk-b  \n");
  ASSERT_TRUE(keys);
  EXPECT_TRUE(keys->allows("Bearer sk-a"));
  EXPECT_TRUE(keys->allows("Bearer sk-b"));
  EXPECT_FALSE(keys->allows("Bearer # ours"));
  EXPECT_FALSE(read("# nothing\n"));
  EXPECT_FALSE(read("\xEF\xBB\xBF\n"));
  ::unlink(path_.c_str());
  EXPECT_FALSE(ApiKeys::read_file(path_));
}

TEST_F(KeyFileTest, may_have_a_byte_order_mark_and_space_around_keys) {
  const auto keys = read("\xEF\xBB\xBFsk-a\nsk-b\t\n \tsk-c \t\r\n  # ours\nsk#d");
  ASSERT_TRUE(keys);
  for (const char* key : {"sk-a", "sk-b", "sk-c", "sk#d"}) {
    EXPECT_TRUE(keys->allows(std::string("Bearer ") + key)) << key;
  }
}

TEST_F(KeyFileTest, with_a_line_that_no_client_could_send_is_refused_by_its_number) {
  for (const std::string_view line : {std::string_view("two words"),
                                      std::string_view("sk-a # ours"),
                                      std::string_view("sk\x01"),
                                      std::string_view("schl\xC3\xBCssel"),
                                      std::string_view("s\0k\0", 4)}) {
    const auto keys = read("sk-a\n\n" + std::string(line) + "\n");
    ASSERT_FALSE(keys) << line;
    EXPECT_NE(keys.error().message.find(": line 3 is not a key"), std::string::npos)
        << keys.error().message;
    EXPECT_EQ(keys.error().message.find(line), std::string::npos);  // it may be a secret
  }
}

}  // namespace
}  // namespace millrace

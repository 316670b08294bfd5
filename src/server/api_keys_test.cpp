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

TEST(ApiKeys, file_holds_one_key_a_line) {
  const std::string path = testing::TempDir() + "millrace_keys_" + std::to_string(::getpid());
  std::ofstream(path) << "# ours\n\nsk-a\r\nsk-b  \n";
  const auto keys = ApiKeys::read_file(path);
  ASSERT_TRUE(keys);
  EXPECT_TRUE(keys->allows("Bearer sk-a"));
  EXPECT_TRUE(keys->allows("Bearer sk-b"));
  EXPECT_FALSE(keys->allows("Bearer # ours"));
  std::ofstream(path) << "# nothing\n";
  EXPECT_FALSE(ApiKeys::read_file(path));
  ::unlink(path.c_str());
  EXPECT_FALSE(ApiKeys::read_file(path));
}

}  // namespace
}  // namespace millrace

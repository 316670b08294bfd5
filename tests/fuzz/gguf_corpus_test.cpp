#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "gguf_target.h"

namespace millrace {
namespace {

const char* const kCorpus = MILLRACE_SOURCE_DIR "/tests/fuzz/corpus/gguf/";

struct Expected {
  std::string code;   // an error_code_name, or "ok"
  std::string words;  // of the message
};

std::map<std::string, Expected> read_expected() {
  std::map<std::string, Expected> expected;
  std::ifstream lines(std::string(kCorpus) + "expected.tsv");
  std::string name, code, words;
  while (std::getline(lines, name, '\t') && std::getline(lines, code, '\t') &&
         std::getline(lines, words)) {
    expected[name] = {code, words};
  }
  return expected;
}

TEST(gguf_corpus, every_file_gives_the_error_it_was_made_for) {
  const auto expected = read_expected();
  ASSERT_GT(expected.size(), 100u);
  for (const auto& [name, want] : expected) {
    std::ifstream stream(kCorpus + name, std::ios::binary);
    ASSERT_TRUE(stream) << name;
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const auto result = exercise_gguf(std::as_bytes(std::span(text)));
    if (want.code == "ok") {
      EXPECT_TRUE(result) << name << ": " << result.error().message;
      continue;
    }
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(error_code_name(result.error().code), want.code) << name;
    EXPECT_THAT(result.error().message, testing::HasSubstr(want.words)) << name;
    EXPECT_THAT(result.error().message, testing::HasSubstr("fuzz.gguf")) << name;
  }
}

TEST(gguf_corpus, has_an_expectation_for_every_file) {
  const auto expected = read_expected();
  for (const auto& file : std::filesystem::directory_iterator(kCorpus)) {
    const std::string name = file.path().filename();
    if (name == "expected.tsv") continue;
    EXPECT_TRUE(expected.contains(name)) << name;
  }
}

}  // namespace
}  // namespace millrace

#include "cli/foreign_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"

namespace millrace {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(text) + " ") {
    const bool is_part = (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '-' || c == '_';
    if (is_part) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

TEST(ForeignNames, are_found_by_each_of_their_names_and_kind) {
  const ForeignName* row = find_foreign_name(ForeignKind::kOption, "--ctx-size");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row, find_foreign_name(ForeignKind::kOption, "-c"));
  EXPECT_EQ(row->here, "--max-model-len");
  EXPECT_EQ(find_foreign_name(ForeignKind::kCommand, "--ctx-size"), nullptr);
  EXPECT_EQ(find_foreign_name(ForeignKind::kOption, "--ctx"), nullptr);
  EXPECT_EQ(find_foreign_name(ForeignKind::kOption, ""), nullptr);
}

TEST(ForeignNames, point_to_options_and_commands_that_exist) {
  std::set<std::string> known = {"--version"};
  testing::internal::CaptureStdout();
  for (const Command& command : commands()) {
    known.insert(command.name);
    const char* arguments[] = {"millrace", command.name, "--help"};
    EXPECT_EQ(run_millrace(3, arguments), 0);
  }
  for (const std::string& word : words_of(testing::internal::GetCapturedStdout())) {
    known.insert(word);
  }
  std::set<std::string> seen;
  for (const ForeignName& row : foreign_names()) {
    for (const std::string& word : words_of(row.here)) {
      EXPECT_TRUE(!word.starts_with("--") || known.contains(word)) << row.here;
    }
    for (const std::string& name : words_of(row.names)) {
      EXPECT_TRUE(seen.insert(std::to_string(static_cast<int>(row.kind)) + name).second) << name;
    }
  }
}

// Rows of the README's table: | names | here |
TEST(ForeignNames, are_what_the_readme_says) {
  std::ifstream readme(MILLRACE_SOURCE_DIR "/README.md");
  bool is_inside = false;
  int n_rows = 0;
  for (std::string line; std::getline(readme, line);) {
    is_inside = line.starts_with("#") ? line.starts_with("## Coming from") : is_inside;
    if (!is_inside || !line.starts_with("| `")) {
      continue;
    }
    std::erase(line, '`');
    const size_t middle = line.find(" | ");
    ASSERT_NE(middle, std::string::npos) << line;
    const std::string names = line.substr(2, middle - 2);
    const std::string here = line.substr(middle + 3, line.size() - middle - 5);
    const auto rows = foreign_names();
    EXPECT_TRUE(
        std::any_of(rows.begin(),
                    rows.end(),
                    [&](const ForeignName& row) { return row.names == names && row.here == here; }))
        << names << " is " << here << " in the README only";
    ++n_rows;
  }
  EXPECT_GE(n_rows, 15);
}

}  // namespace
}  // namespace millrace

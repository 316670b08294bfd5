#include "cli/bench_speculate.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace millrace {
namespace {

SpeculationReport report_with(int64_t n_accepted, int64_t n_rejected) {
  SpeculationReport report;
  report.results.push_back({.name = "story",
                            .plain = 100,
                            .speculative = 150,
                            .ratio = 1.25,
                            .whole_ratio = 1.125,
                            .n_pairs = 5,
                            .n_tokens = 60,
                            .n_accepted = n_accepted,
                            .n_rejected = n_rejected});
  return report;
}

TEST(Speculation, shows_what_the_ratio_is) {
  const std::string text = speculation_text(report_with(20, 10));
  EXPECT_NE(text.find(" 1.250 "), std::string::npos) << text;
  EXPECT_NE(text.find(" 1.125 "), std::string::npos) << text;
  EXPECT_NE(text.find(" 20 of 30\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ratio: the median"), std::string::npos) << text;
  const auto row =
      nlohmann::json::parse(speculation_json(report_with(20, 10)).text())["results"][0];
  EXPECT_EQ(row["ratio"], 1.25);
  EXPECT_EQ(row["ratio_with_prompt"], 1.125);
}

TEST(Speculation, has_no_ratio_where_nothing_was_guessed) {
  const std::string text = speculation_text(report_with(0, 0));
  EXPECT_EQ(text.find("1.250"), std::string::npos) << text;
  EXPECT_EQ(text.find("1.125"), std::string::npos) << text;
  EXPECT_NE(text.find("  -  "), std::string::npos) << text;
  EXPECT_NE(text.find("none made\n"), std::string::npos) << text;
  const auto row = nlohmann::json::parse(speculation_json(report_with(0, 0)).text())["results"][0];
  EXPECT_TRUE(row["ratio"].is_null());
  EXPECT_TRUE(row["ratio_with_prompt"].is_null());
  EXPECT_EQ(row["plain_tokens_per_second"], 100);
}

}  // namespace
}  // namespace millrace

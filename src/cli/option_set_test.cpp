#include "cli/option_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

struct Options {
  std::string model;
  int n_threads = 4;
  float temperature = 1;
  std::optional<int64_t> seed;
  std::optional<std::string> prompt;
  std::vector<std::string> stop;
  bool is_json = false;

  Result<OptionSet::Outcome> parse(std::vector<std::string> arguments) {
    OptionSet set("run MODEL [options]", "Runs.");
    set.add("MODEL", model, "A model");
    set.add("-t,--threads", n_threads, 1, 64, "Threads");
    set.add("--temperature", temperature, 0, 2, "Temperature");
    set.add("-s,--seed", seed, INT64_MIN, INT64_MAX, "Seed");
    set.add("-p,--prompt", prompt, "Prompt");
    set.add("--stop", stop, "Stop");
    set.add("--json", is_json, "JSON");
    return set.parse(arguments);
  }
};

TEST(OptionSet, values_arrive_and_defaults_stay) {
  Options options;
  ASSERT_TRUE(options.parse(
      {"m.gguf", "--threads=2", "-p", "", "-s", "-7", "--stop", "a", "--stop", "b", "--json"}));
  EXPECT_EQ(options.model, "m.gguf");
  EXPECT_EQ(options.n_threads, 2);
  EXPECT_EQ(options.temperature, 1);
  EXPECT_EQ(options.seed, -7);
  EXPECT_EQ(options.prompt, "");
  EXPECT_EQ(options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(options.is_json);
}

TEST(OptionSet, the_last_of_a_repeated_option_counts) {
  Options options;
  ASSERT_TRUE(options.parse({"m", "-t", "2", "--threads", "3"}));
  EXPECT_EQ(options.n_threads, 3);
}

TEST(OptionSet, integers_are_whole_decimal_numbers_that_fit) {
  for (const char* text :
       {"9223372036854775808", "99999999999999999999999", "010", "0x10", "7x", ""}) {
    Options options;
    EXPECT_FALSE(options.parse({"m", "--seed", text})) << text;
  }
  Options options;
  ASSERT_TRUE(options.parse({"m", "--seed", "9223372036854775807"}));
  EXPECT_EQ(options.seed, INT64_MAX);
  ASSERT_TRUE(options.parse({"m", "--seed", "0"}));
  EXPECT_EQ(options.seed, 0);
}

TEST(OptionSet, mistakes_are_errors_that_help) {
  Options options;
  const auto unknown = options.parse({"m", "--thread", "2"});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("did you mean --threads?"), std::string::npos)
      << unknown.error().message;
  EXPECT_NE(unknown.error().message.find("millrace run --help"), std::string::npos);
  const auto assigned = options.parse({"m", "--thread=2"});
  ASSERT_FALSE(assigned);
  EXPECT_NE(assigned.error().message.find("option --thread, did you mean --threads?"),
            std::string::npos)
      << assigned.error().message;
  const auto range = options.parse({"m", "--threads", "100"});
  ASSERT_FALSE(range);
  EXPECT_NE(range.error().message.find("expected 1 to 64, got 100"), std::string::npos)
      << range.error().message;
  EXPECT_FALSE(options.parse({"m", "--threads", "two"}));
  EXPECT_FALSE(options.parse({"m", "--temperature", "nan"}));
  OptionSet open_ended("run [options]", "Runs.");
  std::optional<int64_t> length;
  open_ended.add("--length", length, 2, INT64_MAX, "Tokens");
  const auto small = open_ended.parse(std::vector<std::string>{"--length", "1"});
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().message.find("--length: expected 2 or more, got 1"), std::string::npos)
      << small.error().message;
  const auto missing = options.parse({});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("MODEL"), std::string::npos) << missing.error().message;
  EXPECT_NE(missing.error().message.find("millrace run --help"), std::string::npos);
  const auto bare = options.parse({"m", "--prompt"});
  ASSERT_FALSE(bare);
  EXPECT_NE(bare.error().message.find("--prompt: expected a value behind it: Prompt (millrace run"),
            std::string::npos)
      << bare.error().message;
  const auto swallowed = options.parse({"m", "--prompt", "--json"});
  ASSERT_FALSE(swallowed);
  EXPECT_EQ(swallowed.error().message, bare.error().message);
  ASSERT_TRUE(options.parse({"m", "--prompt=--json"}));
  EXPECT_EQ(options.prompt, "--json");
  const auto extra = options.parse({"m", "other"});
  ASSERT_FALSE(extra);
  EXPECT_NE(extra.error().message.find("unknown argument other: a prompt goes behind -p"),
            std::string::npos)
      << extra.error().message;
}

TEST(OptionSet, options_of_other_programs_are_answered_with_ours) {
  const auto error_of = [](std::vector<std::string> arguments) {
    Options options;
    const auto outcome = options.parse(std::move(arguments));
    return outcome ? std::string() : outcome.error().message;
  };
  EXPECT_NE(error_of({"m", "--temp", "0"}).find("option --temp, here: --temperature (millrace"),
            std::string::npos);
  EXPECT_NE(error_of({"m", "--ctx-size=64"}).find("option --ctx-size, here: --max-model-len"),
            std::string::npos);
  EXPECT_NE(error_of({"m", "--gpu-memory-utilization", "0.9"})
                .find("--gpu-memory-utilization, here: --kv-memory (in MiB)"),
            std::string::npos);
  EXPECT_NE(error_of({"-hf", "a/b"}).find("option -hf, here: not built"), std::string::npos);
  EXPECT_NE(error_of({"m", "-tp", "2"}).find("option -tp, here: not built"), std::string::npos);
  EXPECT_EQ(error_of({"m", "-p", "-ngl"}), "");  // a value
  EXPECT_EQ(error_of({"m", "-p=-ngl", "--json"}), "");
}

// What stands behind a letter must be what its option takes, or it was another program's option.
TEST(OptionSet, names_of_several_letters_are_not_taken_apart) {
  const auto error_of = [](std::vector<std::string> arguments) {
    Options options;
    const auto outcome = options.parse(std::move(arguments));
    return outcome ? std::string() : outcome.error().message;
  };
  for (const char* name : {"-tb", "-sm", "-st", "-sx", "-t2x", "-x", "-xy"}) {
    EXPECT_NE(error_of({"m", name, "4"}).find(fmt::format("unknown option {}", name)),
              std::string::npos)
        << error_of({"m", name, "4"});
  }
  EXPECT_NE(error_of({"m", "-tb", "4"}).find("-tb, here: -t, --threads"), std::string::npos);
  for (const char* sound : {"-t4", "-s-7", "-pHello"}) {
    EXPECT_EQ(error_of({"m", sound}), "") << sound;
  }
}

TEST(OptionSet, unknown_options_are_told_all_at_once) {
  Options options;
  const auto outcome = options.parse(
      {"m", "-fa", "--jason", "-t", "2", "--ctx-size", "9", "--nonsense", "--", "-x"});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message,
            "unknown options: -fa, not needed here (always on); --jason, did you mean --json?; "
            "--ctx-size, here: --max-model-len, which run does not have; --nonsense (millrace run "
            "--help lists the options)");
}

TEST(OptionSet, options_of_run_are_fields_of_a_request_to_serve) {
  OptionSet set("serve MODEL [options]", "Serves.");
  std::string model;
  set.add("MODEL", model, "A model");
  for (const auto& [name, field] :
       std::vector<std::pair<std::string, std::string>>{{"--temp", "temperature"},
                                                        {"--temperature", "temperature"},
                                                        {"-s", "seed"},
                                                        {"--seed=1", "seed"},
                                                        {"--top-p", "top_p"},
                                                        {"-n", "max_tokens"}}) {
    const auto outcome = set.parse(std::vector<std::string>{"m", name});
    ASSERT_FALSE(outcome) << name;
    EXPECT_NE(outcome.error().message.find(fmt::format(", here: \"{}\" in each request", field)),
              std::string::npos)
        << outcome.error().message;
  }
}

TEST(OptionSet, help_is_made_from_the_declarations) {
  Options options;
  testing::internal::CaptureStdout();
  const auto outcome = options.parse({"--help"});
  const std::string text = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(*outcome, OptionSet::Outcome::kHelpShown);
  EXPECT_NE(text.find("millrace run MODEL"), std::string::npos) << text;
  EXPECT_NE(text.find("--threads"), std::string::npos);
  EXPECT_NE(text.find("1..64"), std::string::npos) << text;
  EXPECT_EQ(text.find("9223372036854775807"), std::string::npos) << text;
}

TEST(OptionSet, a_command_runs_only_with_sound_options) {
  for (const auto& [argument, status] :
       std::vector<std::pair<std::string, int>>{{"m", 7}, {"--help", 0}, {"--nonsense", -1}}) {
    std::string model;
    OptionSet set("run MODEL [options]", "Runs.");
    set.add("MODEL", model, "A model");
    int n_runs = 0;
    testing::internal::CaptureStdout();
    const auto result = set.run(std::vector<std::string>{argument}, [&] {
      ++n_runs;
      return 7;
    });
    testing::internal::GetCapturedStdout();
    EXPECT_EQ(result ? *result : -1, status) << argument;
    EXPECT_EQ(n_runs, status == 7 ? 1 : 0) << argument;
  }
}

TEST(NearestName, only_near_names_are_offered) {
  const std::vector<std::string> names = {"run", "serve", "inspect"};
  EXPECT_EQ(nearest_name("serv", names), "serve");
  EXPECT_EQ(nearest_name("inpsect", names), "inspect");
  EXPECT_EQ(nearest_name("quantise", names), "");
}

}  // namespace
}  // namespace millrace

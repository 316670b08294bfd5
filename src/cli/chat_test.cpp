#include "cli/chat.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using Kind = ChatLine::Kind;

std::vector<std::string> lines_of(const Conversation& conversation) {
  std::vector<std::string> lines;
  const Value messages = conversation.messages();
  for (const Value& message : messages.items()) {
    lines.push_back(std::string(message.string_or("role", "")) + ": " +
                    std::string(message.string_or("content", "")));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(ParseChatLine, tells_commands_from_messages) {
  EXPECT_EQ(parse_chat_line("").kind, Kind::kEmpty);
  EXPECT_EQ(parse_chat_line(" \t\r").kind, Kind::kEmpty);
  EXPECT_EQ(parse_chat_line(" hello /help"), (ChatLine{Kind::kMessage, " hello /help"}));
  EXPECT_EQ(parse_chat_line("/help").kind, Kind::kHelp);
  EXPECT_EQ(parse_chat_line("/exit  ").kind, Kind::kExit);
  EXPECT_EQ(parse_chat_line("/clear").kind, Kind::kClear);
  EXPECT_EQ(parse_chat_line("/regen").kind, Kind::kRegenerate);
  EXPECT_EQ(parse_chat_line("/system Be brief.\nAnd kind."),
            (ChatLine{Kind::kSystem, "Be brief.\nAnd kind."}));
  EXPECT_EQ(parse_chat_line("/system"), (ChatLine{Kind::kSystem, ""}));
  EXPECT_EQ(parse_chat_line("/quit now"), (ChatLine{Kind::kUnknown, "/quit"}));
  EXPECT_EQ(parse_chat_line("/clear everything"), (ChatLine{Kind::kUnexpectedText, "/clear"}));
  EXPECT_EQ(parse_chat_line("//etc is a folder"), (ChatLine{Kind::kMessage, "/etc is a folder"}));
}

TEST(ParseChatLine, help_lists_every_command) {
  const std::string help = chat_help();
  for (const char* name : {"/help", "/exit", "/clear", "/system", "/regen", "Ctrl-C"}) {
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

TEST(Conversation, is_sent_whole_with_the_system_message_first) {
  Conversation conversation("Be brief.");
  conversation.add_message("One?");
  conversation.add_answer("Two.");
  conversation.add_message("Three?");
  EXPECT_EQ(lines_of(conversation),
            (Lines{"system: Be brief.", "user: One?", "assistant: Two.", "user: Three?"}));
  conversation.clear();
  EXPECT_EQ(lines_of(conversation), Lines{"system: Be brief."});
  conversation.set_system("");
  EXPECT_EQ(lines_of(conversation), Lines{});
  conversation.set_system("Sing.");
  EXPECT_EQ(lines_of(conversation), Lines{"system: Sing."});
}

TEST(Conversation, an_empty_system_message_is_not_none) {
  EXPECT_EQ(lines_of(Conversation("")), Lines{"system: "});
  EXPECT_EQ(lines_of(Conversation(std::nullopt)), Lines{});
}

TEST(Conversation, the_last_answer_can_be_taken_back) {
  Conversation conversation(std::nullopt);
  EXPECT_FALSE(conversation.reopen());
  conversation.add_message("One?");
  EXPECT_FALSE(conversation.reopen());
  conversation.add_answer("Two.");
  EXPECT_TRUE(conversation.reopen());
  EXPECT_EQ(lines_of(conversation), Lines{"user: One?"});
}

RunOptions options_with_prompt() {
  RunOptions options;
  options.prompt = "Hi.";
  return options;
}

void expect_refused(const RunOptions& options, const char* words) {
  const auto checked = options.check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find(words), std::string::npos) << checked.error().message;
}

TEST(RunOptions, what_excludes_each_other_is_refused_by_name) {
  EXPECT_TRUE(options_with_prompt().check());
  RunOptions options = options_with_prompt();
  options.is_raw = true;
  EXPECT_TRUE(options.check());
  options.system = "Be brief.";
  expect_refused(options, "--system does not go with --raw");
  options.system.reset();
  options.prompt.reset();
  expect_refused(options, "--raw goes with a prompt (-p TEXT)");
}

TEST(RunOptions, mistakes_in_stop_strings_name_the_option) {
  RunOptions options = options_with_prompt();
  options.stop = {"ok", ""};
  expect_refused(options, "--stop: expected a text of 1 to 1024 bytes, got 0");
  options.stop = std::vector<std::string>(17, "x");
  expect_refused(options, "--stop may be given 16 times, got 17");
}

TEST(CutNote, says_what_an_answer_ran_into) {
  FinishEvent finish;
  finish.usage.completion_tokens = 40;
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kCancelled}) {
    finish.reason = reason;
    EXPECT_EQ(cut_note(finish, 40, 2048), "");
  }
  finish.reason = FinishReason::kLength;
  EXPECT_EQ(cut_note(finish, 40, 2048), "cut off: -n 40 allows no more");
  EXPECT_EQ(cut_note(finish, 41, 2048), "cut off: the window of 2048 tokens is full");
  EXPECT_EQ(cut_note(finish, std::nullopt, 2048), "cut off: the window of 2048 tokens is full");
}

TEST(Timings, are_one_line_without_what_came_from_the_cache) {
  FinishEvent finish;
  finish.usage = {.prompt_tokens = 30, .cached_tokens = 20, .completion_tokens = 5};
  finish.timings = {.prefill_seconds = 0.5, .decode_seconds = 2};
  EXPECT_EQ(prefill_rate(finish), 20);
  EXPECT_EQ(decode_rate(finish), 2);
  EXPECT_EQ(timings_text(finish),
            "30 prompt tokens (20 cached) at 20.0 tokens/s, 5 generated at 2.0 tokens/s");
  finish.usage = {.prompt_tokens = 10, .completion_tokens = 1};
  EXPECT_EQ(timings_text(finish), "10 prompt tokens at 20.0 tokens/s, 1 generated");
}

}  // namespace
}  // namespace millrace

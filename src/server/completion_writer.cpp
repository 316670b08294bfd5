// Plain completions: text_completion, whole and as chunks.

#include <fmt/format.h>

#include <utility>

#include "server/answer_writer.h"
#include "server/json_text.h"
#include "server/legacy_logprobs.h"
#include "server/sse.h"

namespace millrace {
namespace {

struct CompletionChoice {
  CompletionChoice(const Tokenizer& tokenizer, CompletionPrompt prompt)
      : echo(std::move(prompt.echo)), is_text(prompt.is_text), logprobs(tokenizer, prompt.tail) {}

  std::shared_ptr<const std::string> echo;  // null: sent, or not wanted
  bool is_text;                             // echo is what the client wrote
  std::string text;
  LegacyLogprobs logprobs;
  const char* finish_reason = "stop";
  bool has_prompt_entries = false;
};

std::vector<CompletionChoice> make_choices(const Tokenizer& tokenizer,
                                           std::vector<CompletionPrompt> prompts) {
  std::vector<CompletionChoice> choices;
  for (CompletionPrompt& prompt : prompts) {
    choices.emplace_back(tokenizer, std::move(prompt));
  }
  return choices;
}

// Moves the prompt's tokens into the logprobs arrays.
void add_prompt(CompletionChoice& choice, const PromptEvent& event) {
  std::string_view rest = choice.is_text && choice.echo ? std::string_view(*choice.echo) : "";
  for (const PromptEvent::Entry& entry : event.entries) {
    choice.logprobs.add_prompt(entry, rest);
  }
  choice.has_prompt_entries = true;
}

// The echoed prompt in front of the first piece of the answer.
std::string take_echo(CompletionChoice& choice) {
  if (choice.echo == nullptr) {
    return {};
  }
  if (!choice.has_prompt_entries) {
    choice.logprobs.skip_characters(count_characters(*choice.echo));
  }
  return *std::exchange(choice.echo, nullptr);
}

class CompletionStreamWriter : public AnswerWriter {
 public:
  CompletionStreamWriter(const AnswerHead& head,
                         const AnswerOptions& options,
                         const Tokenizer& tokenizer,
                         std::vector<CompletionPrompt> prompts)
      : options_(options), choices_(make_choices(tokenizer, std::move(prompts))) {
    prefix_ = fmt::format(
        R"(data: {{"id":{},"object":"text_completion","created":{},"model":{},"choices":[)",
        json_string(head.id),
        head.created,
        json_string(head.model));
    suffix_ = options.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n";
    last_suffix_ = fmt::format("],\"seed\":{}{}", head.seed, suffix_.substr(1));
  }

  void begin(std::string& out) override {
    for (int i = 0; i < options_.n_choices && !options_.has_logprobs; ++i) {
      if (const std::string echo = take_echo(state(i)); !echo.empty()) {
        append_chunk(out, i, echo, "null");
      }
    }
  }
  void prompt(int choice, const PromptEvent& event, std::string& out) override {
    add_prompt(state(choice), event);
    const std::string echo = take_echo(state(choice));
    append_chunk(out, choice, echo, "null");
  }
  void token(int choice, const TokenEvent& event, std::string& out) override {
    if (options_.has_logprobs) {
      const std::string echo = take_echo(state(choice));
      state(choice).logprobs.add(event.token, event.logprob, event.top);
      append_chunk(out, choice, echo + event.text, "null");
    } else if (!event.text.empty()) {
      append_chunk(out, choice, event.text, "null");
    }
  }
  void finish(int choice, const FinishEvent& event, std::string& out) override {
    const std::string reason = fmt::format("\"{}\"", finish_reason_name(event.reason));
    append_chunk(out, choice, take_echo(state(choice)) + event.text, reason);
  }
  void end(const AnswerUsage& total, std::string& out) override {
    if (options_.include_usage) {
      out += prefix_;
      out += "],\"usage\":" + usage_json(total) + "}\n\n";
    }
    out += kSseDone;
  }

 private:
  CompletionChoice& state(int choice) { return choices_[static_cast<size_t>(choice)]; }

  void append_chunk(std::string& out,
                    int choice,
                    std::string_view text,
                    std::string_view finish_reason) {
    LegacyLogprobs& logprobs = state(choice).logprobs;
    out += prefix_;
    out += fmt::format("{{\"index\":{},\"text\":", choice);
    append_json_string(out, text);
    out += ",\"logprobs\":";
    out += logprobs.is_empty() ? "null" : logprobs.take_json();
    out += ",\"finish_reason\":";
    out += finish_reason;
    out += '}';
    out += finish_reason == "null" ? suffix_ : last_suffix_;
  }

  const AnswerOptions options_;
  std::vector<CompletionChoice> choices_;
  std::string prefix_;       // everything of a chunk before its choice
  std::string suffix_;       // everything after it
  std::string last_suffix_;  // the same, of the last chunk of a choice
};

class CompletionWholeWriter : public AnswerWriter {
 public:
  CompletionWholeWriter(AnswerHead head,
                        const AnswerOptions& options,
                        const Tokenizer& tokenizer,
                        std::vector<CompletionPrompt> prompts)
      : head_(std::move(head)),
        options_(options),
        choices_(make_choices(tokenizer, std::move(prompts))) {}

  void begin(std::string&) override {}
  void prompt(int choice, const PromptEvent& event, std::string&) override {
    add_prompt(state(choice), event);
    state(choice).text += take_echo(state(choice));
  }
  void token(int choice, const TokenEvent& event, std::string&) override {
    state(choice).text += take_echo(state(choice)) + event.text;
    if (options_.has_logprobs) {
      state(choice).logprobs.add(event.token, event.logprob, event.top);
    }
  }
  void finish(int choice, const FinishEvent& event, std::string&) override {
    state(choice).text += take_echo(state(choice)) + event.text;
    state(choice).finish_reason = finish_reason_name(event.reason);
  }
  void end(const AnswerUsage& total, std::string& out) override {
    out = fmt::format(R"({{"id":{},"object":"text_completion","created":{},"model":{},"choices":[)",
                      json_string(head_.id),
                      head_.created,
                      json_string(head_.model));
    for (size_t i = 0; i < choices_.size(); ++i) {
      CompletionChoice& choice = choices_[i];
      out += fmt::format(R"({}{{"index":{},"text":{},"logprobs":{},"finish_reason":"{}"}})",
                         i == 0 ? "" : ",",
                         i,
                         json_string(choice.text),
                         options_.has_logprobs ? choice.logprobs.take_json() : "null",
                         choice.finish_reason);
    }
    out += fmt::format(R"(],"usage":{},"seed":{}}})", usage_json(total), head_.seed);
  }

 private:
  CompletionChoice& state(int choice) { return choices_[static_cast<size_t>(choice)]; }

  const AnswerHead head_;
  const AnswerOptions options_;
  std::vector<CompletionChoice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completion_writer(const AnswerHead& head,
                                                     const AnswerOptions& options,
                                                     const Tokenizer& tokenizer,
                                                     std::vector<CompletionPrompt> prompts) {
  if (options.streams) {
    return std::make_unique<CompletionStreamWriter>(head, options, tokenizer, std::move(prompts));
  }
  return std::make_unique<CompletionWholeWriter>(head, options, tokenizer, std::move(prompts));
}

}  // namespace millrace

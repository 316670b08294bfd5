// Chat answers: chat.completion and chat.completion.chunk.

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "server/answer_writer.h"
#include "server/json_text.h"
#include "server/sse.h"
#include "text/tokenizer.h"

namespace millrace {
namespace {

// {"token":...,"logprob":...,"bytes":[...]} without the closing brace.
void append_entry_head(std::string& out, const Tokenizer& tokenizer, TokenId token, float logprob) {
  out += "{\"token\":";
  append_json_string(out, token_label(tokenizer, token));
  out += ",\"logprob\":";
  append_json_float(out, logprob);
  out += ",\"bytes\":[";
  std::string_view bytes = tokenizer.token_bytes(token);
  if (bytes.empty()) {
    bytes = tokenizer.token_text(token);
  }
  const char* separator = "";
  for (const char byte : bytes) {
    fmt::format_to(
        std::back_inserter(out), "{}{}", separator, int{static_cast<unsigned char>(byte)});
    separator = ",";
  }
  out += ']';
}

void append_entry(std::string& out, const Tokenizer& tokenizer, const TokenEvent& event) {
  append_entry_head(out, tokenizer, event.token, event.logprob);
  out += ",\"top_logprobs\":[";
  const char* separator = "";
  for (const TopLogprob& top : event.top) {
    out += separator;
    append_entry_head(out, tokenizer, top.token, top.logprob);
    out += '}';
    separator = ",";
  }
  out += "]}";
}

class ChatStreamWriter : public AnswerWriter {
 public:
  ChatStreamWriter(const AnswerHead& head, const AnswerOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer) {
    prefix_ = fmt::format(
        R"(data: {{"id":{},"object":"chat.completion.chunk","created":{},"model":{},"choices":[)",
        json_string(head.id),
        head.created,
        json_string(head.model));
    suffix_ = options.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n";
    last_suffix_ = fmt::format("],\"seed\":{}{}", head.seed, suffix_.substr(1));
  }

  void begin(std::string& out) override {
    for (int choice = 0; choice < options_.n_choices; ++choice) {
      begin_choice(out, choice);
      out += R"({"role":"assistant","content":""},"logprobs":null,"finish_reason":null})";
      out += suffix_;
    }
  }
  void prompt(int, const PromptEvent&, std::string&) override {}
  void token(int choice, const TokenEvent& event, std::string& out) override {
    if (event.text.empty() && !options_.has_logprobs) {
      return;
    }
    begin_choice(out, choice);
    out += "{\"content\":";
    append_json_string(out, event.text);
    out += "},\"logprobs\":";
    if (options_.has_logprobs) {
      out += "{\"content\":[";
      append_entry(out, tokenizer_, event);
      out += "],\"refusal\":null}";
    } else {
      out += "null";
    }
    out += ",\"finish_reason\":null}";
    out += suffix_;
  }
  void finish(int choice, const FinishEvent& event, std::string& out) override {
    if (!event.text.empty()) {
      begin_choice(out, choice);
      out += "{\"content\":";
      append_json_string(out, event.text);
      out += R"(},"logprobs":null,"finish_reason":null})";
      out += suffix_;
    }
    begin_choice(out, choice);
    out += "{},\"logprobs\":null,\"finish_reason\":\"";
    out += finish_reason_name(event.reason);
    out += "\"}";
    out += last_suffix_;
  }
  void end(const AnswerUsage& total, std::string& out) override {
    if (options_.include_usage) {
      out += prefix_;
      out += "],\"usage\":" + usage_json(total) + "}\n\n";
    }
    out += kSseDone;
  }

 private:
  void begin_choice(std::string& out, int choice) const {
    out += prefix_;
    fmt::format_to(std::back_inserter(out), "{{\"index\":{},\"delta\":", choice);
  }

  const AnswerOptions options_;
  const Tokenizer& tokenizer_;
  std::string prefix_;       // everything of a chunk before its choice
  std::string suffix_;       // everything after it
  std::string last_suffix_;  // the same, of the last chunk of a choice
};

class ChatWholeWriter : public AnswerWriter {
 public:
  ChatWholeWriter(AnswerHead head, const AnswerOptions& options, const Tokenizer& tokenizer)
      : head_(std::move(head)),
        options_(options),
        tokenizer_(tokenizer),
        choices_(static_cast<size_t>(options.n_choices)) {}

  void begin(std::string&) override {}
  void prompt(int, const PromptEvent&, std::string&) override {}
  void token(int choice, const TokenEvent& event, std::string&) override {
    Choice& state = choices_[static_cast<size_t>(choice)];
    state.text += event.text;
    if (options_.has_logprobs) {
      state.entries += state.entries.empty() ? "" : ",";
      append_entry(state.entries, tokenizer_, event);
    }
  }
  void finish(int choice, const FinishEvent& event, std::string&) override {
    Choice& state = choices_[static_cast<size_t>(choice)];
    state.text += event.text;
    state.finish_reason = finish_reason_name(event.reason);
  }
  void end(const AnswerUsage& total, std::string& out) override {
    out = fmt::format(R"({{"id":{},"object":"chat.completion","created":{},"model":{},"choices":[)",
                      json_string(head_.id),
                      head_.created,
                      json_string(head_.model));
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      const std::string logprobs =
          options_.has_logprobs
              ? fmt::format(R"({{"content":[{}],"refusal":null}})", choice.entries)
              : "null";
      out += fmt::format(
          R"({}{{"index":{},"message":{{"role":"assistant","content":{},"refusal":null}},)"
          R"("logprobs":{},"finish_reason":"{}"}})",
          i == 0 ? "" : ",",
          i,
          json_string(choice.text),
          logprobs,
          choice.finish_reason);
    }
    out += fmt::format(R"(],"usage":{},"seed":{}}})", usage_json(total), head_.seed);
  }

 private:
  struct Choice {
    std::string text;
    std::string entries;  // of logprobs.content, joined
    const char* finish_reason = "stop";
  };

  const AnswerHead head_;
  const AnswerOptions options_;
  const Tokenizer& tokenizer_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(const AnswerHead& head,
                                               const AnswerOptions& options,
                                               const Tokenizer& tokenizer) {
  if (options.streams) {
    return std::make_unique<ChatStreamWriter>(head, options, tokenizer);
  }
  return std::make_unique<ChatWholeWriter>(head, options, tokenizer);
}

}  // namespace millrace

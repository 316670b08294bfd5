#include "cli/generate.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/human_bytes.h"
#include "cli/json_object.h"
#include "text/chat_prompt.h"

namespace millrace {
namespace {

const char* reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kTimeout:
      return "timeout";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      break;
  }
  return "error";
}

double rate(int64_t n, double seconds) {
  return seconds > 0 ? static_cast<double>(n) / seconds : 0;
}

int64_t computed_prompt(const Usage& usage) {
  return usage.prompt_tokens - usage.cached_tokens;
}

}  // namespace

Interruption::Interruption() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Interruption::~Interruption() {
  ::close(descriptor_);
}

void Interruption::raise() {
  const std::lock_guard lock(mutex_);
  is_raised_ = true;
  if (stream_) {
    stream_->cancel();
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(descriptor_, &one, sizeof(one));
}

void Interruption::follow(std::shared_ptr<TokenStream> stream) {
  const std::lock_guard lock(mutex_);
  stream_ = std::move(stream);
  if (stream_ && is_raised_) {
    stream_->cancel();
  }
}

bool Interruption::take() {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(descriptor_, &count, sizeof(count));
  return std::exchange(is_raised_, false);
}

std::string with_option_names(std::string message) {
  for (const std::string_view field : {"max_tokens",
                                       "top_k",
                                       "top_p",
                                       "min_p",
                                       "typical_p",
                                       "repetition_penalty",
                                       "frequency_penalty",
                                       "presence_penalty"}) {
    std::string option = "--" + std::string(field);
    std::replace(option.begin(), option.end(), '_', '-');
    for (size_t at = message.find(field); at != std::string::npos;
         at = message.find(field, at + option.size())) {
      message.replace(at, field.size(), option);
    }
  }
  return message;
}

Result<GeneratedAnswer> generate(Engine& engine,
                                 Request request,
                                 Interruption* interruption,
                                 const OnText& on_text) {
  GeneratedAnswer answer;
  answer.prompt = request.prompt;
  auto stream = engine.submit(std::move(request));
  if (!stream) {
    const bool is_too_long = stream.error().code == ErrorCode::kContextLength;
    return fail(stream.error().code,
                "{}{}",
                with_option_names(stream.error().message),
                is_too_long ? ": shorten the prompt or lower -n" : "");
  }
  if (interruption != nullptr) {
    interruption->follow(*stream);
  }
  const auto take_text = [&](const std::string& text) {
    answer.text += text;
    if (on_text) {
      on_text(text);
    }
  };
  for (StreamEvent event; (*stream)->wait_next(event);) {
    if (const auto* token = std::get_if<TokenEvent>(&event.body)) {
      answer.tokens.push_back(token->token);
      take_text(token->text);
    } else if (auto* finish = std::get_if<FinishEvent>(&event.body)) {
      take_text(finish->text);
      answer.finish = std::move(*finish);
    }
  }
  if (interruption != nullptr) {
    interruption->follow(nullptr);
  }
  if (answer.finish.reason == FinishReason::kError) {
    const Error& error = answer.finish.error;
    return fail(error.code, "{}", error.message);
  }
  return answer;
}

Result<std::vector<TokenId>> encode_chat(const Engine& engine, const Value& messages) {
  ChatInput input;
  input.messages = messages;
  return encode_chat(*engine.chat_template(), engine.tokenizer(), std::move(input));
}

double prefill_rate(const FinishEvent& finish) {
  return rate(computed_prompt(finish.usage), finish.timings.prefill_seconds);
}

double decode_rate(const FinishEvent& finish) {
  return rate(finish.usage.completion_tokens - 1, finish.timings.decode_seconds);
}

std::string timings_text(const FinishEvent& finish) {
  const Usage& usage = finish.usage;
  std::string text = counted(usage.prompt_tokens, "prompt token");
  if (usage.cached_tokens > 0) {
    text += fmt::format(" ({} cached)", usage.cached_tokens);
  }
  text += fmt::format(
      " at {:.1f} tokens/s, {} generated", prefill_rate(finish), usage.completion_tokens);
  if (usage.completion_tokens > 1) {
    text += fmt::format(" at {:.1f} tokens/s", decode_rate(finish));
  }
  if (const int64_t n = usage.accepted_drafts + usage.rejected_drafts; n > 0) {
    text +=
        fmt::format(" ({} of {} {} right)", usage.accepted_drafts, n, n == 1 ? "guess" : "guesses");
  }
  return text;
}

std::string cut_note(const FinishEvent& finish, std::optional<int64_t> max_tokens, int64_t window) {
  if (finish.reason != FinishReason::kLength) {
    return "";
  }
  return max_tokens && finish.usage.completion_tokens >= *max_tokens
             ? fmt::format("cut off: -n {} allows no more", *max_tokens)
             : fmt::format("cut off: the window of {} tokens is full", window);
}

std::string answer_json(const Engine& engine, const GeneratedAnswer& answer) {
  const FinishEvent& finish = answer.finish;
  JsonObject timings;
  timings.add("load_seconds", engine.info().load_seconds)
      .add("queue_seconds", finish.timings.queue_seconds)
      .add("prefill_seconds", finish.timings.prefill_seconds)
      .add("decode_seconds", finish.timings.decode_seconds)
      .add("prefill_tokens_per_second", prefill_rate(finish))
      .add("decode_tokens_per_second", decode_rate(finish));
  JsonObject usage;
  usage.add("prompt_tokens", finish.usage.prompt_tokens)
      .add("completion_tokens", finish.usage.completion_tokens)
      .add("cached_tokens", finish.usage.cached_tokens)
      .add("accepted_drafts", finish.usage.accepted_drafts)
      .add("rejected_drafts", finish.usage.rejected_drafts);
  JsonObject all;
  all.add("model", engine.info().name)
      .add("text", answer.text)
      .add("prompt_tokens", answer.prompt)
      .add("tokens", answer.tokens)
      .add("finish_reason", reason_name(finish.reason))
      .add("seed", finish.seed)
      .add("usage", usage)
      .add("threads", engine.info().n_threads)
      .add("isa", kernels::isa_name(engine.info().isa))
      .add("timings", timings);
  return all.text();
}

}  // namespace millrace

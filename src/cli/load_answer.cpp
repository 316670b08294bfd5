#include "cli/load_answer.h"

#include <algorithm>

#include "text/value.h"

namespace millrace {
namespace {

constexpr size_t kKeptBytes = 2000;  // for messages

int64_t count(const Value& object, std::string_view name) {
  const Value* value = object.find(name);
  return value != nullptr && value->is_int() ? std::max<int64_t>(value->as_int(), 0) : 0;
}

// error: an object with a message, or the message itself.
std::string message_of(const Value& error, std::string_view otherwise) {
  return error.is_string() ? error.as_string() : std::string(error.string_or("message", otherwise));
}

}  // namespace

void LoadAnswerReader::feed(std::string_view bytes) {
  if (raw_.size() < kKeptBytes) {
    raw_ += bytes.substr(0, kKeptBytes - raw_.size());
  }
  events_.feed(bytes, [this](std::string_view data) { take(data); });
}

void LoadAnswerReader::finish(const Result<int>& status, int64_t n_wanted) {
  sample_.whole = seconds_since(start_);
  if (!status) {
    set_error(status.error().message);
    return;
  }
  sample_.status = is_refused_ ? 429 : *status;
  if (*status != 200) {
    set_error(raw_.empty() ? "an empty body" : error_text());
  } else if (sample_.error.empty()) {
    if (!is_done_ || sample_.finish_reason.empty()) {
      sample_.error = "the stream ended without finish_reason and [DONE]";
    } else if (!has_usage_) {
      sample_.error = "the stream had no usage";
    } else if (sample_.completion_tokens == 0 && sample_.first_token > 0) {
      sample_.error = "text came, of which usage counts no token";
    }
  }
  sample_.is_short = sample_.error.empty() && sample_.completion_tokens < n_wanted;
}

void LoadAnswerReader::take(std::string_view data) {
  if (data == "[DONE]") {
    is_done_ = true;
    return;
  }
  const auto chunk = parse_json(data);
  if (!chunk) {
    set_error("a chunk is not JSON: " + chunk.error().message);
    return;
  }
  if (const Value* error = chunk->find("error"); error != nullptr && !error->is_none()) {
    set_error(message_of(*error, "an error without a message"));
    is_refused_ = error->is_dict() && error->string_or("code", "") == "rate_limit_exceeded";
    return;
  }
  if (const Value* usage = chunk->find("usage"); usage != nullptr && usage->is_dict()) {
    sample_.prompt_tokens = count(*usage, "prompt_tokens");
    sample_.completion_tokens = count(*usage, "completion_tokens");
    has_usage_ = true;
  }
  const Value* choices = chunk->find("choices");
  if (choices == nullptr || !choices->is_list() || choices->items().empty()) {
    return;
  }
  const Value& choice = choices->items()[0];
  if (const std::string_view reason = choice.string_or("finish_reason", ""); !reason.empty()) {
    sample_.finish_reason = reason;
  }
  if (const Value* delta = choice.find("delta")) {
    take_text(delta->string_or("reasoning_content", ""));  // what a model thinks is generated too
    take_text(delta->string_or("content", ""));
  }
}

// Never empty: an empty error would be none.
void LoadAnswerReader::set_error(std::string_view message) {
  sample_.error = message.empty() ? "an error without a message" : printable_line(message);
}

void LoadAnswerReader::take_text(std::string_view text) {
  if (text.empty()) {
    return;
  }
  const double now = seconds_since(start_);
  if (sample_.first_token == 0) {
    sample_.first_token = now;
  } else {
    sample_.gaps.push_back(now - last_);
  }
  last_ = now;
  if (shown_ != nullptr) {
    std::fwrite(text.data(), 1, text.size(), shown_);
    std::fflush(shown_);
  }
}

std::string LoadAnswerReader::error_text() const {
  const auto body = parse_json(raw_);
  const Value* error = body ? body->find("error") : nullptr;
  return error != nullptr ? message_of(*error, raw_) : raw_;
}

}  // namespace millrace

#include "server/legacy_logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "server/answer_writer.h"
#include "server/json_text.h"
#include "text/tokenizer.h"

namespace millrace {

int64_t count_characters(std::string_view valid_utf8) {
  return std::count_if(valid_utf8.begin(), valid_utf8.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  });
}

void LegacyLogprobs::add(TokenId token, float logprob, const std::vector<TopLogprob>& top) {
  add_text(detokenizer_.push(token), token, logprob, top);
}

void LegacyLogprobs::add_prompt(const PromptEvent::Entry& entry, std::string_view& rest) {
  // Some control tokens take the white space around them along.
  const std::string_view begun =
      rest.substr(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  const bool is_spelled =
      tokenizer_.is_control(entry.token) && begun.starts_with(tokenizer_.token_text(entry.token));
  const std::string text =
      is_spelled ? detokenizer_.push_spelled(entry.token) : detokenizer_.push(entry.token);
  if (!rest.starts_with(text) && begun.starts_with(text)) {
    rest = begun;
  }
  rest.remove_prefix(std::min(text.size(), rest.size()));
  add_text(text, entry.token, entry.logprob, entry.top);
}

void LegacyLogprobs::add_text(const std::string& text,
                              TokenId token,
                              float logprob,
                              const std::vector<TopLogprob>& top) {
  const char* separator = n_++ == 0 ? "" : ",";
  tokens_ += separator;
  append_json_string(tokens_, text);
  logprobs_ += separator;
  append_json_float(logprobs_, logprob);
  fmt::format_to(std::back_inserter(offsets_), "{}{}", separator, offset_);
  offset_ += count_characters(text);

  tops_ += separator;
  if (std::isnan(logprob)) {  // the first token of a prompt: nothing predicted it
    tops_ += "null";
    return;
  }
  tops_ += '{';
  const char* comma = "";
  bool has_token = false;
  std::vector<std::string> keys{text};  // JSON keys are unique: the better entry stays
  for (const TopLogprob& entry : top) {
    const bool is_token = entry.token == token;
    std::string key = is_token ? text : token_label(tokenizer_, entry.token);
    if (!is_token && std::find(keys.begin(), keys.end(), key) != keys.end()) {
      continue;
    }
    tops_ += comma;
    append_json_string(tops_, key);
    tops_ += ':';
    append_json_float(tops_, entry.logprob);
    comma = ",";
    has_token |= is_token;
    keys.push_back(std::move(key));
  }
  if (!has_token) {
    tops_ += comma;
    append_json_string(tops_, text);
    tops_ += ':';
    append_json_float(tops_, logprob);
  }
  tops_ += '}';
}

std::string LegacyLogprobs::take_json() {
  std::string json = fmt::format(
      R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
      tokens_,
      logprobs_,
      tops_,
      offsets_);
  tokens_.clear();
  logprobs_.clear();
  tops_.clear();
  offsets_.clear();
  n_ = 0;
  return json;
}

}  // namespace millrace

#include "server/legacy_logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "server/answer_writer.h"
#include "server/json_text.h"

namespace millrace {

int64_t count_characters(std::string_view valid_utf8) {
  return std::count_if(valid_utf8.begin(), valid_utf8.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  });
}

void LegacyLogprobs::add(TokenId token, float logprob, const std::vector<TopLogprob>& top) {
  const char* separator = n_++ == 0 ? "" : ",";
  const std::string text = detokenizer_.push(token);
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

#include "server/unsupported_fields.h"

#include <algorithm>
#include <array>

namespace millrace {
namespace {

constexpr std::string_view kConstrained = "constrained output is not supported yet";
constexpr std::string_view kSampler = "this way of sampling is not supported";

constexpr std::array kAll = {
    UnsupportedField{"guided_json", "[]", kConstrained},  // {} would ask for JSON
    UnsupportedField{"guided_regex", R"([""])", kConstrained},
    UnsupportedField{"guided_choice", "[[]]", kConstrained},
    UnsupportedField{"guided_grammar", R"([""])", kConstrained},
    UnsupportedField{"structured_outputs", "[{}]", kConstrained},
    UnsupportedField{"grammar", R"([""])", kConstrained},
    UnsupportedField{"json_schema", "[]", kConstrained},
    UnsupportedField{"use_beam_search", "[]", "beam search is not supported"},
    UnsupportedField{"length_penalty", "[1]", "beam search is not supported"},
    UnsupportedField{"early_stopping", "[]", "beam search is not supported"},
    UnsupportedField{"bad_words", "[[]]", "is not supported (logit_bias bans single tokens)"},
    UnsupportedField{
        "allowed_token_ids", "[[]]", "is not supported (logit_bias favours single tokens)"},
    UnsupportedField{"logits_processors", "[[]]", "is not supported"},
    UnsupportedField{
        "prompt_logprobs", "[]", "is not supported (\"echo\": true with logprobs gives them)"},
    UnsupportedField{"truncate_prompt_tokens", "[]", "prompts are never cut"},
    UnsupportedField{
        "include_stop_str_in_output", "[]", "the stop string is never part of the answer"},
    UnsupportedField{
        "return_tokens_as_token_ids", "[]", "log-probabilities show tokens as they are spelled"},
    UnsupportedField{"n_predict", "[-1]", "use max_tokens"},
    UnsupportedField{"num_predict", "[-1]", "use max_tokens"},
    UnsupportedField{"options", "[{}]", "write what it holds as fields of the request itself"},
    UnsupportedField{"format", R"([""])", kConstrained},
    UnsupportedField{
        "think", "[]", "use chat_template_kwargs, if the model's template has a switch"},
    UnsupportedField{"samplers", "[[]]", kSampler},
    UnsupportedField{"n_probs", "[0]", "use logprobs"},
    UnsupportedField{"repeat_penalty", "[1]", "use repetition_penalty"},
    UnsupportedField{"dynatemp_range", "[0]", kSampler},
    UnsupportedField{"dry_multiplier", "[0]", kSampler},
    UnsupportedField{"xtc_probability", "[0]", kSampler},
    UnsupportedField{"mirostat", "[0]", kSampler},
    UnsupportedField{"tfs_z", "[1]", kSampler},
    UnsupportedField{"top_a", "[0]", kSampler},
    UnsupportedField{"lora", "[[]]", "adapters are not supported"},
};

constexpr std::array kChat = {
    UnsupportedField{"modalities", R"([["text"], []])", "only [\"text\"] is supported"},
    UnsupportedField{"audio", "[{}]", "is not supported"},
    UnsupportedField{"functions", "[[]]", "is not supported (use tools)"},
    UnsupportedField{"function_call", R"(["none", "auto"])", "is not supported (use tools)"},
    UnsupportedField{"web_search_options", "[]", "is not supported"},  // {} would ask for a search
    UnsupportedField{
        "chat_template", R"([""])", "templates come with the model, not with a request"},
    UnsupportedField{"verbosity", R"(["medium"])", "only \"medium\" is supported"},
    UnsupportedField{"mm_processor_kwargs", "[{}]", "only text is supported"},
    UnsupportedField{"echo", "[]", "is only supported by /v1/completions"},
    UnsupportedField{"best_of", "[1]", "is not supported"},
};

bool is_neutral(const Value& value, std::string_view neutral) {
  if (value.is_bool() && !value.as_bool()) {
    return true;
  }
  const auto values = parse_json(neutral);
  const auto items = values->items();
  return std::any_of(items.begin(), items.end(), [&](const Value& item) {
    return value.is_bool() == item.is_bool() && equal(value, item);
  });
}

}  // namespace

std::span<const UnsupportedField> unsupported_in_all() {
  return kAll;
}

std::span<const UnsupportedField> unsupported_in_chat() {
  return kChat;
}

void refuse_unsupported(FieldReader& reader, std::span<const UnsupportedField> fields) {
  for (const UnsupportedField& field : fields) {
    const Value* value = reader.take(field.name);
    if (value != nullptr && !is_neutral(*value, field.neutral)) {
      reader.refuse(field.name, field.why);
    }
  }
}

}  // namespace millrace

// POST /v1/completions.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "server/api/completion_request.h"
#include "server/api/endpoints.h"
#include "server/api/read_request.h"

namespace millrace {
namespace {

constexpr int64_t kDefaultMaxTokens = 16;  // OpenAI's
constexpr size_t kTailTokens = 8;          // more than any character is split into

void add_ids(FieldReader& reader,
             std::string_view field,
             const Value& array,
             CompletionRequest& request) {
  std::vector<TokenId> ids = take_ids(reader, field, array, INT32_MAX);
  if (ids.empty()) {
    reader.fail_at(field, "expected at least one token id, got an empty array");
  }
  request.prompts.emplace_back(std::move(ids));
}

// A string, ids, or an array of strings or of arrays of ids.
void read_prompt(FieldReader& reader, CompletionRequest& request) {
  constexpr std::string_view kExpected = "text, token ids, or an array of either";
  const Value* prompt = reader.take("prompt");
  if (prompt == nullptr || !(prompt->is_string() || is_array(*prompt))) {
    reader.fail_expecting("prompt", kExpected, prompt);
  } else if (prompt->is_string()) {
    request.prompts.emplace_back(*prompt);
  } else if (prompt->is_list() && prompt->items().empty()) {
    reader.fail_at("prompt", fmt::format("expected {}, got an empty array", kExpected));
  } else if (!prompt->is_list() ||
             !(prompt->items()[0].is_string() || is_array(prompt->items()[0]))) {
    add_ids(reader, "prompt", *prompt, request);
  } else {
    for (size_t i = 0; i < prompt->items().size() && !reader.has_failed(); ++i) {
      const Value& item = prompt->items()[i];
      const std::string name = fmt::format("prompt[{}]", i);
      if (item.is_string()) {
        request.prompts.emplace_back(item);
      } else if (is_array(item)) {
        add_ids(reader, name, item, request);
      } else {
        reader.fail_expecting(name, "text or token ids", &item);
      }
    }
  }
}

void read_lengths(FieldReader& reader, CompletionRequest& request) {
  GenerationFields& fields = request.fields;
  fields.request.max_tokens = kDefaultMaxTokens;
  read_max_tokens(reader, fields, 0);
  if (fields.request.max_tokens == 0 && !request.echo) {
    reader.fail_at(fields.max_tokens_name,
                   "expected at least 1, or -1 for what the window leaves, got 0 (0 needs "
                   "\"echo\": true)");
  }
}

void read_logprobs(FieldReader& reader, CompletionRequest& request) {
  std::optional<int64_t> n_logprobs;
  reader.read("logprobs", 0, kMaxTopLogprobs, n_logprobs);
  if (n_logprobs) {
    request.fields.request.n_logprobs = static_cast<int>(*n_logprobs);
    if (request.echo) {
      request.fields.request.prompt_logprobs = static_cast<int>(*n_logprobs);
    }
  }
}

void refuse_other_values(FieldReader& reader, const CompletionRequest& request) {
  std::string suffix;
  reader.read("suffix", suffix);
  if (!suffix.empty()) {
    reader.refuse("suffix", "filling in the middle is not supported");
  }
  int best_of = request.fields.request.n;
  reader.read("best_of", 1, kMaxChoices, best_of);
  if (best_of != request.fields.request.n) {
    reader.refuse("best_of", "only the value of n is supported");
  }
}

// The prompts' ids; the prompts are freed on the way.
ApiResult<std::vector<std::vector<TokenId>>> encode_prompts(const Engine& engine,
                                                            CompletionRequest& request) {
  const auto max_tokens = static_cast<size_t>(engine.info().max_model_len);
  std::vector<std::vector<TokenId>> prompts;
  for (auto& prompt : request.prompts) {
    const auto* text = std::get_if<Value>(&prompt);
    if (text == nullptr) {
      prompts.push_back(std::move(std::get<std::vector<TokenId>>(prompt)));
      continue;
    }
    // A raw prompt is the client's own template, so control tokens spelled in it count.
    auto ids = engine.tokenizer().encode_within(
        max_tokens, text->as_string(), request.add_special_tokens, true);
    if (!ids) {
      return tl::unexpected(too_long(
          ids.error(),
          request.prompts.size() > 1 ? fmt::format("prompt[{}]", prompts.size()) : "prompt"));
    }
    prompts.push_back(std::move(*ids));
    if (!request.echo) {
      prompt = Value();
    }
  }
  return prompts;
}

// What the writer needs to know of each choice's prompt.
std::vector<CompletionPrompt> describe_prompts(const CompletionRequest& request,
                                               const std::vector<Request>& requests,
                                               const Tokenizer& tokenizer) {
  std::vector<CompletionPrompt> of_choices;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<TokenId>& ids = requests[i].prompt;
    CompletionPrompt known;
    if (request.echo) {
      const auto* text = std::get_if<Value>(&request.prompts[i]);
      known.is_text = text != nullptr;
      known.echo = std::make_shared<const std::string>(known.is_text ? text->as_string()
                                                                     : tokenizer.decode(ids));
    } else {
      known.tail.assign(ids.end() - static_cast<int64_t>(std::min(ids.size(), kTailTokens)),
                        ids.end());
    }
    of_choices.insert(of_choices.end(), static_cast<size_t>(request.fields.request.n), known);
  }
  return of_choices;
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(const Value& body) {
  FieldReader reader(body);
  CompletionRequest request;
  read_generation_fields(reader, request.fields);
  read_prompt(reader, request);
  reader.read("echo", request.echo);
  reader.read("add_special_tokens", request.add_special_tokens);
  read_lengths(reader, request);
  read_logprobs(reader, request);
  refuse_other_values(reader, request);
  const size_t n = static_cast<size_t>(request.fields.request.n);
  if (request.prompts.size() * n > kMaxChoices) {
    reader.fail_at("prompt",
                   fmt::format("{} prompts with {} choices each are more than {} answers",
                               request.prompts.size(),
                               n,
                               kMaxChoices));
  }
  return reader.finish(std::move(request));
}

ApiResult<Reply> create_completion(Call& call) {
  auto request = read_request(call, parse_completion_request);
  if (!request) {
    return tl::unexpected(request.error());
  }
  const Engine& engine = *call.service.engine();
  auto prompts = encode_prompts(engine, *request);
  if (!prompts) {
    return tl::unexpected(prompts.error());
  }
  GenerationFields& fields = request->fields;
  const AnswerHead head = make_answer_head("cmpl-", fields);
  auto requests = make_requests(call, fields, "prompt", std::move(*prompts));
  if (!requests) {
    return tl::unexpected(std::move(requests.error()));
  }
  std::vector<CompletionPrompt> of_choices =
      describe_prompts(*request, *requests, engine.tokenizer());
  const AnswerOptions options =
      answer_options(call.service, fields, static_cast<int>(of_choices.size()));
  auto writer = make_completion_writer(head, options, engine.tokenizer(), std::move(of_choices));
  return answer_generation(call, fields, std::move(*requests), std::move(writer));
}

}  // namespace millrace

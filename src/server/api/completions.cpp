// POST /v1/completions.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "server/api/completion_request.h"
#include "server/api/endpoints.h"
#include "server/service.h"

namespace millrace {
namespace {

constexpr int64_t kDefaultMaxTokens = 16;  // OpenAI's
constexpr size_t kTailTokens = 8;          // more than any character is split into

std::vector<TokenId> read_ids(FieldReader& reader, const Value& list, const std::string& name) {
  std::vector<TokenId> ids;
  ids.reserve(list.items().size());
  for (size_t i = 0; i < list.items().size(); ++i) {
    const Value& item = list.items()[i];
    if (!item.is_int() || item.as_int() < 0 || item.as_int() > INT32_MAX) {
      reader.fail_at(fmt::format("{}[{}]", name, i),
                     fmt::format("expected a token id, got {}", describe(item)));
      return {};
    }
    ids.push_back(static_cast<TokenId>(item.as_int()));
  }
  if (ids.empty()) {
    reader.fail_at(name, "expected at least one token id, got an empty array");
  }
  return ids;
}

// A string, ids, or an array of strings or of arrays of ids.
void read_prompt(FieldReader& reader, CompletionRequest& request) {
  const Value* prompt = reader.take("prompt");
  if (prompt == nullptr) {
    reader.fail_at("prompt", "is required: text, token ids, or an array of either");
  } else if (prompt->is_string()) {
    request.prompts.emplace_back(prompt->as_string());
  } else if (!prompt->is_list() || prompt->items().empty()) {
    reader.fail_at("prompt",
                   fmt::format("expected text, token ids, or an array of either, got {}",
                               prompt->is_list() ? "an empty array" : describe(*prompt)));
  } else if (!prompt->items()[0].is_string() && !prompt->items()[0].is_list()) {
    request.prompts.emplace_back(read_ids(reader, *prompt, "prompt"));
  } else {
    for (size_t i = 0; i < prompt->items().size() && !reader.has_failed(); ++i) {
      const Value& item = prompt->items()[i];
      const std::string name = fmt::format("prompt[{}]", i);
      if (item.is_string()) {
        request.prompts.emplace_back(item.as_string());
      } else if (item.is_list()) {
        request.prompts.emplace_back(read_ids(reader, item, name));
      } else {
        reader.fail_at(name, fmt::format("expected text or token ids, got {}", describe(item)));
      }
    }
  }
}

void read_lengths(FieldReader& reader, CompletionRequest& request) {
  Request& generation = request.fields.request;
  generation.max_tokens = kDefaultMaxTokens;
  reader.read("max_tokens", 0, INT32_MAX, generation.max_tokens);
  reader.read("max_completion_tokens", 0, INT32_MAX, generation.max_tokens);
  if (generation.max_tokens == 0 && !request.echo) {
    reader.fail_at("max_tokens", "expected at least 1, got 0 (0 needs \"echo\": true)");
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

void refuse_unsupported(FieldReader& reader, const CompletionRequest& request) {
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

std::string echo_text(const std::variant<std::string, std::vector<TokenId>>& prompt,
                      const Tokenizer& tokenizer) {
  const auto* text = std::get_if<std::string>(&prompt);
  return text != nullptr ? *text : tokenizer.decode(std::get<std::vector<TokenId>>(prompt));
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
  refuse_unsupported(reader, request);
  const size_t n = static_cast<size_t>(request.fields.request.n);
  if (request.prompts.size() * n > kMaxChoices) {
    reader.fail_at("prompt",
                   fmt::format("{} prompts with {} choices each are more than {} answers",
                               request.prompts.size(),
                               n,
                               kMaxChoices));
  }
  if (reader.error()) {
    return tl::unexpected(*reader.error());
  }
  request.unknown_fields = reader.unread();
  return request;
}

ApiResult<Reply> create_completion(Call& call) {
  const auto body = parse_body(call.request.body);
  if (!body) {
    return tl::unexpected(body.error());
  }
  auto request = parse_completion_request(*body);
  if (!request) {
    return tl::unexpected(request.error());
  }
  Service& service = call.service;
  GenerationFields& fields = request->fields;
  auto accepted = service.accept(call.request.path, fields.model, request->unknown_fields);
  if (!accepted) {
    return tl::unexpected(accepted.error());
  }

  const Tokenizer& tokenizer = service.engine()->tokenizer();
  std::vector<std::vector<TokenId>> prompts;
  std::vector<CompletionPrompt> of_choices;
  for (auto& prompt : request->prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    // A raw prompt is the client's own template, so control tokens spelled in
    // it count.
    prompts.push_back(text != nullptr ? tokenizer.encode(*text, request->add_special_tokens, true)
                                      : std::get<std::vector<TokenId>>(prompt));
    CompletionPrompt known;
    if (request->echo) {
      known.echo = echo_text(prompt, tokenizer);
    } else {
      const auto& ids = prompts.back();
      known.tail.assign(ids.end() - static_cast<int64_t>(std::min(ids.size(), kTailTokens)),
                        ids.end());
    }
    of_choices.insert(of_choices.end(), static_cast<size_t>(fields.request.n), known);
  }
  const AnswerHead head = make_answer_head("cmpl-", fields);
  const AnswerOptions options =
      answer_options(service, fields, static_cast<int>(of_choices.size()));
  auto writer = make_completion_writer(head, options, tokenizer, std::move(of_choices));
  return answer_generation(call, fields, "prompt", std::move(prompts), std::move(writer));
}

}  // namespace millrace

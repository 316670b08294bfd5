#include "server/generation.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <utility>

#include "engine/engine.h"
#include "server/answer_feed.h"
#include "server/answer_id.h"
#include "server/generation_source.h"
#include "server/response_cache/response_cache.h"
#include "server/service.h"
#include "server/sse.h"
#include "server/unsupported_fields.h"

namespace millrace {
namespace {

constexpr int64_t kAllTokens = -1;  // as clients of llama.cpp and Ollama ask for them

// False, with a mistake that tells both numbers, when there are too many.
bool check_count(
    FieldReader& reader, std::string_view field, size_t n, size_t limit, std::string_view what) {
  if (n > limit) {
    reader.fail_at(field, fmt::format("expected at most {} {}, got {}", limit, what, n));
  }
  return n <= limit;
}

void read_stop(FieldReader& reader, std::vector<std::string>& out) {
  const Value* stop = reader.take("stop");
  if (stop == nullptr) {
    return;
  }
  const auto add = [&](const Value& item, const std::string& name) {
    if (!item.is_string()) {
      reader.fail_expecting(name, "a string", &item);
    } else if (item.as_string().empty() || item.as_string().size() > kMaxStopBytes) {
      reader.fail_at(
          name,
          fmt::format("expected 1 to {} bytes, got {}", kMaxStopBytes, item.as_string().size()));
    } else {
      out.push_back(item.as_string());
    }
  };
  if (!stop->is_list()) {
    add(*stop, "stop");
    return;
  }
  if (!check_count(reader, "stop", stop->items().size(), kMaxStopStrings, "strings")) {
    return;
  }
  for (size_t i = 0; i < stop->items().size(); ++i) {
    add(stop->items()[i], fmt::format("stop[{}]", i));
  }
}

void read_stop_tokens(FieldReader& reader, std::vector<TokenId>& out) {
  const Value* tokens = reader.take("stop_token_ids");
  if (tokens == nullptr) {
    return;
  }
  if (!tokens->is_list()) {
    reader.fail_expecting("stop_token_ids", "an array of token ids", tokens);
  } else if (check_count(
                 reader, "stop_token_ids", tokens->items().size(), kMaxStopTokens, "token ids")) {
    out = take_ids(reader, "stop_token_ids", *tokens, INT32_MAX);
  }
}

void read_logit_bias(FieldReader& reader, std::vector<LogitBias>& out) {
  const Value* biases = reader.take("logit_bias");
  if (biases == nullptr) {
    return;
  }
  if (!biases->is_dict()) {
    reader.fail_expecting("logit_bias", "an object of token ids with their bias", biases);
    return;
  }
  if (!check_count(reader, "logit_bias", biases->as_dict().size(), kMaxLogitBias, "token ids")) {
    return;
  }
  for (const auto& [key, value] : biases->as_dict()) {
    const std::string& name = key.as_string();
    TokenId token = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (error != std::errc{} || end != name.data() + name.size() || token < 0) {
      reader.fail_at("logit_bias",
                     fmt::format("expected token ids as keys, got {}", describe(key)));
      return;
    }
    const double bias = value.is_int()      ? static_cast<double>(value.as_int())
                        : value.is_double() ? value.as_double()
                                            : -1000.0;
    if (!(bias >= -100 && bias <= 100)) {
      reader.fail_at(fmt::format("logit_bias.{}", token),
                     fmt::format("expected a number from -100 to 100, got {}", describe(value)));
      return;
    }
    out.push_back({token, static_cast<float>(bias)});
  }
}

void read_stream_fields(FieldReader& reader, GenerationFields& fields) {
  reader.read("stream", fields.streams);
  const Value* options = reader.take("stream_options");
  if (options == nullptr) {
    return;
  }
  if (!fields.streams) {
    reader.fail_at("stream_options", "is only allowed together with \"stream\": true");
    return;
  }
  FieldReader nested(*options, "stream_options");
  nested.read("include_usage", fields.include_usage);
  nested.ignore({"include_obfuscation"});
  bool has_running_usage = false;
  nested.read("continuous_usage_stats", has_running_usage);
  if (has_running_usage) {
    nested.refuse("continuous_usage_stats", "usage on every chunk is not supported");
  }
  reader.adopt(nested);
}

void read_sampling(FieldReader& reader, SamplingParams& sampling) {
  const auto read = [&](const char* name, SamplingRange range, float& value) {
    reader.read(name, range.low, range.high, value);
  };
  read("temperature", kTemperatureRange, sampling.temperature);
  reader.read("top_k", kLeastTopK, INT32_MAX, sampling.top_k);
  read("top_p", kShareRange, sampling.top_p);
  read("typical_p", kShareRange, sampling.typical_p);
  read("min_p", kShareRange, sampling.min_p);
  read("repetition_penalty", kRepetitionRange, sampling.repetition_penalty);
  read("frequency_penalty", kPenaltyRange, sampling.frequency_penalty);
  read("presence_penalty", kPenaltyRange, sampling.presence_penalty);
  read_logit_bias(reader, sampling.logit_bias);
}

void refuse_other_values(FieldReader& reader) {
  refuse_unsupported(reader, unsupported_in_all());
  const Value* format = reader.take("response_format");
  if (format != nullptr && format->string_or("type", "") != "text") {
    reader.refuse("response_format",
                  "only {\"type\": \"text\"} is supported, "
                  "constrained output is not yet");
  }
  bool skips_control = true;
  reader.read("skip_special_tokens", skips_control);
  if (!skips_control) {
    reader.refuse("skip_special_tokens", "control tokens are never part of the text");
  }
}

// Everything that can be wrong with the requests together or with one of them.
std::optional<ApiError> find_mistake(const std::vector<Request>& requests,
                                     const GenerationFields& fields,
                                     const RequestLimits& limits,
                                     std::string_view prompt_field) {
  const int64_t n = requests.front().n;
  const int64_t n_answers = static_cast<int64_t>(requests.size()) * n;
  if (n_answers > limits.max_waiting) {
    const std::string_view field = requests.size() > 1 ? prompt_field : "n";
    return ApiError{ApiCode::kInvalidValue,
                    fmt::format("{}: expected at most {} answers of one request (prompts times n), "
                                "which is how many this server lets wait, got {}",
                                field,
                                limits.max_waiting,
                                n_answers),
                    std::string(field)};
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string prompt_name =
        requests.size() > 1 ? fmt::format("{}[{}]", prompt_field, i) : std::string(prompt_field);
    if (auto fault = find_fault(requests[i],
                                limits,
                                {.prompt = prompt_name,
                                 .max_tokens = fields.max_tokens_name,
                                 .stop_tokens = "stop_token_ids"})) {
      ApiError error = to_api_error(fault->error);
      error.param = std::move(fault->field);
      return error;
    }
  }
  return std::nullopt;
}

// All of a reply but where its events come from.
struct AnswerForm {
  bool streams = false;
  int n = 1;  // choices of a prompt
  std::unique_ptr<AnswerWriter> writer;
  Waker wake;
};

ApiResult<Reply> make_reply(AnswerForm form, Result<std::unique_ptr<AnswerFeed>> feed) {
  if (!feed) {
    return tl::unexpected(to_api_error(feed.error()));
  }
  Reply reply;
  reply.streams = form.streams;
  if (form.streams) {
    reply.response = sse_response();
    if (const auto outcome = (*feed)->cache_outcome()) {
      reply.response.headers.push_back({kResponseCacheHeader, cache_outcome_name(*outcome)});
    }
  }
  reply.source = std::make_unique<GenerationSource>(
      form.streams, form.n, std::move(*feed), std::move(form.writer), std::move(form.wake));
  return reply;
}

ApiResult<Reply> answer_with_cache(const Call& call,
                                   const GenerationFields& fields,
                                   ResponseCache& cache,
                                   std::vector<Request> requests,
                                   AnswerForm form) {
  Engine& engine = *call.service.engine();
  CacheQuestion question;
  question.use = cache_use(call.request, fields.request, !fields.has_drawn_seed);
  if (question.use.reads || question.use.writes) {
    question.key = request_key(requests, engine.limits());
  }
  question.shape = {.n_choices = static_cast<int>(requests.size()) * form.n,
                    .n_vocab = engine.limits().n_vocab};
  question.place = {.client = call.client, .priority = fields.request.priority};
  question.compute = [&engine, requests = std::move(requests)](const Waker& on_ready) {
    return EngineFeed::submit(engine, requests, on_ready);
  };
  question.wake = call.wake;
  const auto lookup = cache.look_elsewhere(question);
  if (lookup == nullptr) {
    return make_reply(std::move(form), cache.answer(std::move(question)));
  }
  struct Waiting {
    CacheQuestion question;
    AnswerForm form;
  };
  const auto waiting = std::make_shared<Waiting>(Waiting{std::move(question), std::move(form)});
  Reply reply;
  reply.decide = [&cache, lookup, waiting]() -> std::optional<Reply> {
    if (!lookup->is_done()) {
      return std::nullopt;
    }
    waiting->question.found = lookup->take();
    auto decided = make_reply(std::move(waiting->form), cache.answer(std::move(waiting->question)));
    return decided ? std::move(*decided) : Reply{error_response(decided.error()), nullptr, false};
  };
  return reply;
}

}  // namespace

void read_generation_fields(FieldReader& reader, GenerationFields& fields) {
  Request& request = fields.request;
  reader.read("model", fields.model);
  read_stream_fields(reader, fields);
  reader.read("n", 1, kMaxChoices, request.n);
  std::optional<int64_t> seed;
  reader.read("seed", INT64_MIN, INT64_MAX, seed);
  if (seed && *seed != kAnySeed) {
    request.seed = static_cast<uint64_t>(*seed);
  }
  read_stop(reader, request.stop);
  read_stop_tokens(reader, request.stop_tokens);
  read_sampling(reader, request.sampling);
  reader.read("min_tokens", 0, INT32_MAX, request.min_tokens);
  reader.read("ignore_eos", request.ignore_eos);
  reader.read("priority", -kMaxPriority, kMaxPriority, request.priority);
  reader.read("timeout_ms", 1, kMaxTimeoutMilliseconds, request.timeout_ms);
  reader.read("cache_salt", request.cache_salt);
  refuse_other_values(reader);
  // Who asks, and hints about where and how fast: nothing here depends on them.
  reader.ignore({"user", "safety_identifier", "prompt_cache_key", "service_tier", "metadata"});
}

void read_max_tokens(FieldReader& reader, GenerationFields& fields, int64_t low) {
  std::optional<int64_t>& limit = fields.request.max_tokens;
  const auto asks_for_all = [](const Value* value) {
    return value != nullptr && value->is_int() && value->as_int() == kAllTokens;
  };
  for (const std::string_view name : {"n_predict", "num_predict"}) {  // refused if they say more
    const Value* value = reader.take(name);
    const bool is_real = value != nullptr && value->is_double() && value->as_double() == kAllTokens;
    if (is_real || asks_for_all(value)) {
      limit.reset();
    }
  }
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
    const Value* value = reader.take(name);
    if (value == nullptr) {
      continue;
    }
    fields.max_tokens_name = name;
    if (asks_for_all(value)) {
      limit.reset();
    } else if (value->is_int() && value->as_int() < low) {
      reader.fail_at(name,
                     fmt::format("expected {} or more, or {} for what the window leaves, got {}",
                                 low,
                                 kAllTokens,
                                 value->as_int()));
    } else {
      reader.read(name, low, INT32_MAX, limit);
    }
  }
}

ApiError too_long(const Error& error, std::string param) {
  ApiError result = to_api_error(error);
  result.message = fmt::format("{}: {}", param, error.message);
  result.param = std::move(param);
  return result;
}

AnswerHead make_answer_head(std::string_view prefix, GenerationFields& fields) {
  if (!fields.request.seed) {
    fields.has_drawn_seed = true;
    fields.request.seed = is_greedy(fields.request.sampling) ? 0 : random_seed();
  }
  return {make_answer_id(prefix),
          std::time(nullptr),
          fields.model,
          static_cast<int64_t>(*fields.request.seed)};
}

AnswerOptions answer_options(const Service& service,
                             const GenerationFields& fields,
                             int n_choices) {
  return {.n_choices = n_choices,
          .streams = fields.streams,
          .include_usage = fields.include_usage || service.options().always_usage,
          .has_logprobs = fields.request.n_logprobs.has_value()};
}

ApiResult<std::vector<Request>> make_requests(const Call& call,
                                              const GenerationFields& fields,
                                              std::string_view prompt_field,
                                              std::vector<std::vector<TokenId>> prompts) {
  std::vector<Request> requests(prompts.size(), fields.request);
  for (size_t i = 0; i < prompts.size(); ++i) {
    requests[i].prompt = std::move(prompts[i]);
    requests[i].client = call.client;
    requests[i].received = call.request.received;
  }
  const RequestLimits& limits = call.service.engine()->limits();
  if (auto mistake = find_mistake(requests, fields, limits, prompt_field)) {
    return tl::unexpected(std::move(*mistake));
  }
  return requests;
}

ApiResult<Reply> answer_generation(const Call& call,
                                   const GenerationFields& fields,
                                   std::vector<Request> requests,
                                   std::unique_ptr<AnswerWriter> writer) {
  Engine& engine = *call.service.engine();
  AnswerForm form{fields.streams, fields.request.n, std::move(writer), call.wake};
  if (ResponseCache* cache = call.service.response_cache()) {
    return answer_with_cache(call, fields, *cache, std::move(requests), std::move(form));
  }
  return make_reply(std::move(form), EngineFeed::submit(engine, std::move(requests), call.wake));
}

}  // namespace millrace

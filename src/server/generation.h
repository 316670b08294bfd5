#pragma once
// What completions and chat completions share: the fields of a request, and the reply that feeds
// the engine's events through a writer. HTTP threads.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/answer_writer.h"
#include "server/api_error.h"
#include "server/field_reader.h"
#include "server/routes.h"

namespace millrace {

class Service;

struct GenerationFields : BodyFields {
  Request request;                                  // without the prompt
  std::string_view max_tokens_name = "max_tokens";  // as the client called it
  bool has_drawn_seed = false;                      // the client gave none
  bool streams = false;
  bool include_usage = false;
};

// model, stream, stream_options, n, seed, stop, sampling parameters, priority and their extensions;
// refuses by name what would change the answer and is not supported.
void read_generation_fields(FieldReader& reader, GenerationFields& fields);
// max_tokens and its newer name max_completion_tokens, which wins. -1 is what the window leaves,
// also under the names of other servers.
void read_max_tokens(FieldReader& reader, GenerationFields& fields, int64_t low);

// What Tokenizer::encode_within said of a text at param.
ApiError too_long(const Error& error, std::string param);

// Id, time, model and seed of an answer. Draws the seed of a request that has none, so that it can
// be reported and all prompts of the request share it; where nothing is drawn it is 0.
AnswerHead make_answer_head(std::string_view prefix, GenerationFields& fields);
AnswerOptions answer_options(const Service& service, const GenerationFields& fields, int n_choices);

// One request a prompt, each with fields.request.n choices; or what is wrong with any of them.
// Nothing that grows with a prompt or with n is to be made before: this refuses what is too long or
// too many. prompt_field: where the client wrote the prompts.
ApiResult<std::vector<Request>> make_requests(const Call& call,
                                              const GenerationFields& fields,
                                              std::string_view prompt_field,
                                              std::vector<std::vector<TokenId>> prompts);

// Submits what make_requests gave and answers with what the writer makes of the events.
ApiResult<Reply> answer_generation(const Call& call,
                                   const GenerationFields& fields,
                                   std::vector<Request> requests,
                                   std::unique_ptr<AnswerWriter> writer);

}  // namespace millrace

#pragma once
// What completions and chat completions share: the fields of a request, and the reply that feeds
// the engine's events through a writer. HTTP threads.

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/answer_writer.h"
#include "server/api_error.h"
#include "server/field_reader.h"
#include "server/routes.h"

namespace millrace {

struct GenerationFields {
  Request request;  // without the prompt
  std::string model;
  bool streams = false;
  bool include_usage = false;
};

// model, stream, stream_options, n, seed, stop, sampling parameters, priority and their extensions;
// refuses by name what would change the answer and is not supported.
void read_generation_fields(FieldReader& reader, GenerationFields& fields);

// The body as a JSON object, or what is wrong with it.
std::variant<Value, ApiError> parse_body(const HttpRequest& request);

// Submits one request a prompt (each with request.n choices) and answers with what the writer makes
// of the events. An error of the first or of any later prompt is an error of the whole.
Reply answer_generation(Call& call,
                        const GenerationFields& fields,
                        std::vector<std::vector<TokenId>> prompts,
                        std::unique_ptr<AnswerWriter> writer);

Reply error_reply(const ApiError& error);
std::string make_answer_id(std::string_view prefix);  // prefix and 24 random characters
int64_t unix_seconds();

}  // namespace millrace

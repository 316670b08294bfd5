#pragma once
// Turns the engine's events into the bytes of an answer. One writer a request, on its I/O thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/token_stream.h"
#include "server/cache_outcome.h"

namespace millrace {

class Tokenizer;

// What every chunk of one answer says alike.
struct AnswerHead {
  std::string id;       // "chatcmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;    // as the client called it
  int64_t seed = 0;     // the request's, or the one drawn for it
};

struct AnswerOptions {
  int n_choices = 1;
  bool streams = false;
  bool include_usage = false;  // a stream ends with a usage chunk
  bool has_logprobs = false;
};

// Of all choices together.
struct AnswerUsage {
  Usage tokens;
  std::optional<CacheOutcome> response_cache = {};  // absent: there is none
};

// Each call appends what it has to say: a streaming writer events, another one nothing before
// end().
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void begin(std::string& out) = 0;
  virtual void prompt(int choice, const PromptEvent& event, std::string& out) = 0;
  virtual void token(int choice, const TokenEvent& event, std::string& out) = 0;
  virtual void finish(int choice, const FinishEvent& event, std::string& out) = 0;
  virtual void end(const AnswerUsage& total, std::string& out) = 0;
};

std::unique_ptr<AnswerWriter> make_chat_writer(const AnswerHead& head,
                                               const AnswerOptions& options,
                                               const Tokenizer& tokenizer);

// What the writer needs to know of the prompt of one choice.
struct CompletionPrompt {
  // Put before the answer; the choices of a prompt share it. Null without echo.
  std::shared_ptr<const std::string> echo = {};
  bool is_text = false;            // echo is what the client wrote, not what ids stand for
  std::vector<TokenId> tail = {};  // its last ids, when they get no entries in logprobs themselves
};

// prompts: one a choice.
std::unique_ptr<AnswerWriter> make_completion_writer(const AnswerHead& head,
                                                     const AnswerOptions& options,
                                                     const Tokenizer& tokenizer,
                                                     std::vector<CompletionPrompt> prompts);

// A token's own text; control tokens as they are spelled; bytes that are no text as
// "bytes:\xe2\x80".
std::string token_label(const Tokenizer& tokenizer, TokenId token);

std::string usage_json(const AnswerUsage& usage);
const char* finish_reason_name(FinishReason reason);  // "stop", "length", "timeout"

}  // namespace millrace

#pragma once
// One request to an engine of our own, read to its end, and how run and chat show it. Main thread.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "text/value.h"

namespace millrace {

// What Ctrl-C has to reach: the answer being made, or else the wait for the next line.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  void raise();  // any thread
  // From now on raise() cancels this stream, and so does one that nobody has taken yet; null: none.
  void follow(std::shared_ptr<TokenStream> stream);
  bool take();                                    // raised since the last call?
  int descriptor() const { return descriptor_; }  // readable when raised

 private:
  const int descriptor_;
  std::mutex mutex_;
  std::shared_ptr<TokenStream> stream_;
  bool is_raised_ = false;
};

struct GeneratedAnswer {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  std::string text;
  FinishEvent finish;
};

// The engine speaks of a request's fields ("max_tokens"), the command line of options
// ("--max-tokens").
std::string with_option_names(std::string message);

// on_text gets the text as it comes. interruption may be null.
using OnText = std::function<void(const std::string& text)>;
Result<GeneratedAnswer> generate(Engine& engine,
                                 Request request,
                                 Interruption* interruption = nullptr,
                                 const OnText& on_text = {});

// messages: a list of {role, content}. The engine has a chat template.
Result<std::vector<TokenId>> encode_chat(const Engine& engine, const Value& messages);

// Tokens a second; tokens from the prefix cache are not counted, the first token belongs to the
// prefill. 0 when nothing was measured.
double prefill_rate(const FinishEvent& finish);
double decode_rate(const FinishEvent& finish);

// "14 prompt tokens at 812.3 tokens/s, 60 generated at 240.1 tokens/s"
std::string timings_text(const FinishEvent& finish);

// Why an answer of so many tokens at most (absent: what the window leaves) was cut off: by -n or by
// a window of so many tokens; empty: it was not.
std::string cut_note(const FinishEvent& finish, std::optional<int64_t> max_tokens, int64_t window);

// The object that --json prints.
std::string answer_json(const Engine& engine, const GeneratedAnswer& answer);

}  // namespace millrace

// millrace run: one answer to the terminal, or an interactive chat. Only generated text goes to
// standard output.

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <mutex>
#include <utility>

#include "cli/command.h"
#include "cli/json_object.h"
#include "cli/model_options.h"
#include "cli/option_set.h"
#include "cli/stop_signals.h"

namespace millrace {
namespace {

struct RunOptions {
  ModelOptions model;
  std::optional<std::string> prompt;
  std::string system;
  std::optional<int64_t> max_tokens;
  SamplingParams sampling;
  std::optional<int64_t> seed;
  std::vector<std::string> stop;
  bool is_raw = false;
  bool ignore_eos = false;
  bool is_json = false;

  void declare(OptionSet& options) {
    model.declare(options);
    options.add("-p,--prompt", prompt, "The prompt; without it a chat with standard input");
    options.add("--system", system, "A system message in front of the conversation");
    options.add("-n,--max-tokens", max_tokens, 1, INT32_MAX, "Tokens of an answer at most");
    options.add("--temperature", sampling.temperature, 0, 1e6, "0 takes the likeliest token");
    options.add("--top-k", sampling.top_k, 0, INT32_MAX, "Draw among the k likeliest; 0: all");
    options.add("--top-p", sampling.top_p, 1e-6, 1, "Draw among the likeliest with this sum");
    options.add("--min-p", sampling.min_p, 0, 1, "Least probability, as a share of the best");
    options.add("--typical-p", sampling.typical_p, 1e-6, 1, "Draw among the locally typical");
    options.add("--repetition-penalty", sampling.repetition_penalty, 0.01, 100, "1: none");
    options.add("--frequency-penalty", sampling.frequency_penalty, -2, 2, "0: none");
    options.add("--presence-penalty", sampling.presence_penalty, -2, 2, "0: none");
    options.add("-s,--seed", seed, INT64_MIN, INT64_MAX, "Same seed, same answer; default: random");
    options.add("--stop", stop, "End the answer before this text (repeatable)");
    options.add("--raw", is_raw, "The prompt as it is, without the model's chat template");
    options.add("--ignore-eos", ignore_eos, "Go on after the model's end token");
    options.add("--json", is_json, "Print one JSON object with ids, text and timings");
  }
};

// What Ctrl-C has to reach: the answer being made, or else the wait for the next line.
class Interruption {
 public:
  Interruption() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Interruption() { ::close(descriptor_); }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  void raise() {
    const std::lock_guard lock(mutex_);
    is_raised_ = true;
    if (stream_) {
      stream_->cancel();
    }
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(descriptor_, &one, sizeof(one));
  }
  void follow(std::shared_ptr<TokenStream> stream) {
    const std::lock_guard lock(mutex_);
    stream_ = std::move(stream);
  }
  // Since the last call.
  bool take() {
    const std::lock_guard lock(mutex_);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(descriptor_, &count, sizeof(count));
    return std::exchange(is_raised_, false);
  }
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
  std::mutex mutex_;
  std::shared_ptr<TokenStream> stream_;
  bool is_raised_ = false;
};

struct Answer {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  std::string text;
  FinishEvent finish;
};

Result<std::vector<TokenId>> encode_chat(const Engine& engine, const Value& messages) {
  const Tokenizer& tokenizer = engine.tokenizer();
  ChatInput input;
  input.messages = messages;
  input.bos_token = tokenizer.token_text(tokenizer.bos());
  input.eos_token = tokenizer.token_text(tokenizer.eos());
  auto pieces = engine.chat_template()->render(input);
  if (!pieces) {
    return propagate(pieces);
  }
  const bool has_bos = !input.bos_token.empty() && starts_with(*pieces, input.bos_token);
  return tokenizer.encode(*pieces, !has_bos);
}

Result<Answer> generate(Engine& engine,
                        const RunOptions& options,
                        std::vector<TokenId> prompt,
                        Interruption& interruption) {
  Answer answer;
  answer.prompt = prompt;
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  request.stop = options.stop;
  request.ignore_eos = options.ignore_eos;
  if (options.seed) {
    request.seed = static_cast<uint64_t>(*options.seed);
  }
  auto stream = engine.submit(std::move(request));
  if (!stream) {
    return propagate(stream);
  }
  interruption.follow(*stream);
  const auto show = [&](const std::string& text) {
    answer.text += text;
    if (!options.is_json) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }
  };
  for (StreamEvent event; (*stream)->wait_next(event);) {
    if (const auto* token = std::get_if<TokenEvent>(&event.body)) {
      answer.tokens.push_back(token->token);
      show(token->text);
    } else if (auto* finish = std::get_if<FinishEvent>(&event.body)) {
      show(finish->text);
      answer.finish = std::move(*finish);
    }
  }
  interruption.follow(nullptr);
  if (answer.finish.reason == FinishReason::kError) {
    return tl::unexpected<Error>(answer.finish.error);
  }
  return answer;
}

std::string ids_json(const std::vector<TokenId>& ids) {
  std::string text = "[";
  for (const TokenId id : ids) {
    text += fmt::format("{}{}", text.size() == 1 ? "" : ",", id);
  }
  return text + "]";
}

const char* reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      break;
  }
  return "error";
}

double rate(int64_t n, double seconds) {
  return seconds > 0 ? static_cast<double>(n) / seconds : 0;
}

void print_json(const Engine& engine, const Answer& answer) {
  const FinishEvent& finish = answer.finish;
  JsonObject timings;
  timings.add("load_seconds", engine.info().load_seconds)
      .add("queue_seconds", finish.timings.queue_seconds)
      .add("prefill_seconds", finish.timings.prefill_seconds)
      .add("decode_seconds", finish.timings.decode_seconds)
      .add("prefill_tokens_per_second",
           rate(finish.usage.prompt_tokens, finish.timings.prefill_seconds))
      .add("decode_tokens_per_second",
           rate(finish.usage.completion_tokens - 1, finish.timings.decode_seconds));
  JsonObject usage;
  usage.add("prompt_tokens", finish.usage.prompt_tokens)
      .add("completion_tokens", finish.usage.completion_tokens)
      .add("cached_tokens", finish.usage.cached_tokens);
  JsonObject all;
  all.add("model", engine.info().name)
      .add("text", answer.text)
      .add_raw("prompt_tokens", ids_json(answer.prompt))
      .add_raw("tokens", ids_json(answer.tokens))
      .add("finish_reason", reason_name(finish.reason))
      .add("seed", finish.seed)
      .add("usage", usage)
      .add("threads", engine.info().n_threads)
      .add("isa", kernels::isa_name(engine.info().isa))
      .add("timings", timings);
  fmt::print("{}\n", all.text());
}

Value message(std::string_view role, std::string_view content) {
  return Value::dict({{"role", Value(role)}, {"content", Value(content)}});
}

Value first_messages(const RunOptions& options) {
  Value messages = Value::list({});
  if (!options.system.empty()) {
    messages.append(message("system", options.system));
  }
  return messages;
}

Result<int> run_once(Engine& engine, const RunOptions& options, Interruption& interruption) {
  std::vector<TokenId> prompt;
  if (options.is_raw || engine.chat_template() == nullptr) {
    prompt = engine.tokenizer().encode(*options.prompt, true, true);
  } else {
    Value messages = first_messages(options);
    messages.append(message("user", *options.prompt));
    auto encoded = encode_chat(engine, messages);
    if (!encoded) {
      return propagate(encoded);
    }
    prompt = std::move(*encoded);
  }
  const auto answer = generate(engine, options, std::move(prompt), interruption);
  if (!answer) {
    return propagate(answer);
  }
  if (options.is_json) {
    print_json(engine, *answer);
  } else {
    std::fputs("\n", ::isatty(STDOUT_FILENO) ? stdout : stderr);
  }
  return 0;
}

// A line from standard input; false at its end or after an interruption.
bool read_line(std::string& buffer, std::string& line, Interruption& interruption) {
  while (true) {
    if (const size_t end = buffer.find('\n'); end != std::string::npos) {
      line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      return true;
    }
    std::array<pollfd, 2> waiting{pollfd{STDIN_FILENO, POLLIN, 0},
                                  pollfd{interruption.descriptor(), POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0 || waiting[1].revents != 0) {
      return false;
    }
    std::array<char, 4096> bytes;
    const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n <= 0) {
      line = std::exchange(buffer, {});
      return !line.empty();
    }
    buffer.append(bytes.data(), static_cast<size_t>(n));
  }
}

Result<int> chat(Engine& engine, const RunOptions& options, Interruption& interruption) {
  if (engine.chat_template() == nullptr || options.is_raw) {
    return fail(ErrorCode::kInvalidArgument,
                "a chat needs the model's chat template: give a prompt with -p");
  }
  fmt::print(stderr, "{}: a line is a message, Ctrl-D ends\n", engine.info().name);
  Value messages = first_messages(options);
  std::string buffer;
  for (std::string line;;) {
    fmt::print(stderr, "> ");
    std::fflush(stderr);
    if (!read_line(buffer, line, interruption)) {
      fmt::print(stderr, "\n");
      return 0;
    }
    if (line.empty()) {
      continue;
    }
    messages.append(message("user", line));
    auto prompt = encode_chat(engine, messages);
    if (!prompt) {
      return propagate(prompt);
    }
    const auto answer = generate(engine, options, std::move(*prompt), interruption);
    if (!answer) {
      return propagate(answer);
    }
    interruption.take();  // Ctrl-C ends an answer, not the chat
    if (options.is_json) {
      print_json(engine, *answer);
    } else {
      std::fputs("\n", stdout);
    }
    messages.append(message("assistant", answer->text));
  }
}

}  // namespace

Result<int> run_command(Arguments arguments) {
  RunOptions options;
  OptionSet set("run MODEL [-p TEXT] [options]",
                "One answer to the terminal; without -p an interactive chat.");
  options.declare(set);
  const auto outcome = set.parse(arguments);
  if (!outcome) {
    return propagate(outcome);
  }
  if (*outcome == OptionSet::Outcome::kHelpShown) {
    return 0;
  }
  Interruption interruption;
  bool is_loaded = false;
  std::mutex mutex;
  const StopSignals signals([&](int) {
    const std::lock_guard lock(mutex);
    if (!is_loaded) {
      std::_Exit(1);
    }
    interruption.raise();
  });
  auto files = open_model(options.model.model);
  if (!files) {
    return propagate(files);
  }
  Metrics metrics;
  EngineOptions engine_options;
  engine_options.max_sequences = 1;
  auto engine = start_engine(std::move(*files), options.model, std::move(engine_options), metrics);
  if (!engine) {
    return propagate(engine);
  }
  {
    const std::lock_guard lock(mutex);
    is_loaded = true;
  }
  return options.prompt ? run_once(**engine, options, interruption)
                        : chat(**engine, options, interruption);
}

}  // namespace millrace

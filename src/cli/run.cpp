// millrace run: one answer to the terminal, or an interactive chat. Only generated text (or JSON)
// goes to standard output.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "cli/chat.h"
#include "cli/command.h"
#include "cli/generate.h"
#include "cli/note.h"
#include "cli/option_set.h"
#include "cli/run_options.h"
#include "cli/stop_signals.h"

namespace millrace {
namespace {

// What the options ask of the model's chat template.
Result<void> check_template(const ModelFiles& files, const RunOptions& options) {
  const bool wants_template = !options.prompt || options.system;
  if (options.is_raw || files.chat_template != nullptr || !wants_template) {
    return {};
  }
  const std::string reason = files.chat_template_error.empty()
                                 ? files.name + " has no chat template"
                                 : fmt::format("the chat template of {} cannot be used ({})",
                                               files.name,
                                               files.chat_template_error);
  return fail(ErrorCode::kInvalidArgument,
              "{}: {}",
              reason,
              options.prompt ? "--system cannot be used, leave it out and write all of the prompt "
                               "with -p"
                             : "there is no chat, give a text to be continued with -p");
}

Result<std::vector<TokenId>> encode_prompt(const Engine& engine, const RunOptions& options) {
  if (options.is_raw || engine.chat_template() == nullptr) {
    return engine.tokenizer().encode(*options.prompt, true, true);
  }
  Conversation conversation(options.system);
  conversation.add_message(*options.prompt);
  return encode_chat(engine, conversation.messages());
}

// A pipe or a file gets the text exactly, a terminal a line end behind it.
Result<FinishReason> run_once(Engine& engine,
                              const RunOptions& options,
                              Interruption& interruption) {
  auto prompt = encode_prompt(engine, options);
  if (!prompt) {
    return propagate(prompt);
  }
  Request request = options.request();
  request.prompt = std::move(*prompt);
  const std::optional<int64_t> max_tokens = request.max_tokens;
  const auto answer =
      generate(engine, std::move(request), &interruption, [&](const std::string& text) {
        if (!options.is_json) {
          std::fwrite(text.data(), 1, text.size(), stdout);
          std::fflush(stdout);
        }
      });
  if (!answer) {
    return propagate(answer);
  }
  if (options.is_json) {
    fmt::print("{}\n", answer_json(engine, *answer));
    return answer->finish.reason;
  }
  if (::isatty(STDOUT_FILENO) != 0 && !answer->text.ends_with('\n')) {
    fmt::print("\n");
    std::fflush(stdout);
  }
  if (!options.is_quiet) {
    print_note("[{}]\n", timings_text(answer->finish));
    if (const std::string note = cut_note(answer->finish, max_tokens, engine.info().max_model_len);
        !note.empty()) {
      print_note("[{}]\n", note);
    }
  }
  return answer->finish.reason;
}

Result<int> run(const RunOptions& options) {
  Interruption interruption;
  bool is_loaded = false;
  std::mutex mutex;
  std::atomic<int> last_signal{0};
  const StopSignals signals([&](int, int signal) {
    const std::lock_guard lock(mutex);
    last_signal.store(signal);
    if (!is_loaded) {
      std::_Exit(128 + signal);
    }
    interruption.raise();
  });
  auto files = open_model(options.model.model);
  if (!files) {
    return propagate(files);
  }
  if (auto checked = check_template(*files, options); !checked) {
    return propagate(checked);
  }
  Metrics metrics;
  EngineOptions base;
  base.max_sequences = 1;
  if (auto applied = options.draft.apply(base); !applied) {
    return propagate(applied);
  }
  auto draft = open_draft(options.draft.model);
  if (!draft) {
    return propagate(draft);
  }
  auto engine =
      start_engine(std::move(*files), options.model, std::move(base), metrics, *std::move(draft));
  if (!engine) {
    return propagate(engine);
  }
  {
    const std::lock_guard lock(mutex);
    is_loaded = true;
  }
  if (!options.prompt) {
    return chat(**engine, options, interruption);
  }
  auto reason = run_once(**engine, options, interruption);
  if (!reason) {
    return propagate(reason);
  }
  // As a shell tells of a program that a signal ended: half an answer is not one.
  return *reason == FinishReason::kCancelled ? 128 + last_signal.load() : 0;
}

}  // namespace

Result<int> run_command(Arguments arguments) {
  RunOptions options;
  OptionSet set("run MODEL [-p TEXT] [options]",
                "One answer to the terminal; without -p an interactive chat.");
  options.declare(set);
  return set.run(arguments, [&]() -> Result<int> {
    if (auto checked = options.check(); !checked) {
      return propagate(checked);
    }
    if (auto read = options.read_prompt(); !read) {
      return propagate(read);
    }
    return run(options);
  });
}

}  // namespace millrace

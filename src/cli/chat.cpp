#include "cli/chat.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "cli/foreign_names.h"
#include "cli/note.h"
#include "cli/option_set.h"

namespace millrace {
namespace {

using Kind = ChatLine::Kind;

// What Linux hands over of a line that is typed or pasted; what is behind it is dropped.
constexpr size_t kMaxTerminalLine = 4095;

struct ChatCommand {
  const char* name;
  Kind kind;
  const char* help;
};
constexpr std::array kCommands = {
    ChatCommand{"/help", Kind::kHelp, "this list"},
    ChatCommand{"/regen", Kind::kRegenerate, "answer the last message once more, in another way"},
    ChatCommand{"/clear", Kind::kClear, "forget the conversation; the system message stays"},
    ChatCommand{"/system", Kind::kSystem, "TEXT: set the system message; without TEXT: none"},
    ChatCommand{"/exit", Kind::kExit, "end the chat, as Ctrl-D does"},
};

// Lines from standard input, which may end as on Windows; a backslash at the end of a line
// continues it.
class LineReader {
 public:
  explicit LineReader(Interruption& interruption) : interruption_(interruption) {}

  // False at the end of the input or after an interruption.
  bool read(std::string& line) {
    line.clear();
    was_cut_ = false;
    for (std::string part; read_part(part);) {
      if (part.ends_with('\r')) {
        part.pop_back();
      }
      if (!part.ends_with('\\')) {
        line += part;
        return true;
      }
      part.back() = '\n';
      line += part;
    }
    return !line.empty() && !is_interrupted_;
  }
  // The terminal has dropped the end of the line, or of a part of it.
  bool was_cut() const { return was_cut_; }

 private:
  bool read_part(std::string& part) {
    while (true) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        was_cut_ = was_cut_ || (is_terminal_ && end >= kMaxTerminalLine);
        part = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return true;
      }
      std::array<pollfd, 2> waiting{pollfd{STDIN_FILENO, POLLIN, 0},
                                    pollfd{interruption_.descriptor(), POLLIN, 0}};
      const int n_ready = ::poll(waiting.data(), waiting.size(), -1);
      if (n_ready < 0 && errno == EINTR) {
        continue;
      }
      if (n_ready < 0 || waiting[1].revents != 0) {
        is_interrupted_ = true;
        return false;
      }
      std::array<char, 4096> bytes;
      const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (n <= 0) {
        part = std::exchange(buffer_, {});
        return !part.empty();
      }
      buffer_.append(bytes.data(), static_cast<size_t>(n));
    }
  }

  Interruption& interruption_;
  const bool is_terminal_ = ::isatty(STDIN_FILENO) != 0;
  std::string buffer_;
  bool is_interrupted_ = false;
  bool was_cut_ = false;
};

class Chat {
 public:
  Chat(Engine& engine, const RunOptions& options, Interruption& interruption)
      : engine_(engine),
        options_(options),
        interruption_(interruption),
        conversation_(options.system) {}

  Result<int> run() {
    // Signs for somebody who types; in the log of a script they would be noise.
    const bool is_interactive = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0;
    if (is_interactive && !options_.is_quiet) {
      print_note("{}: a line is a message, /help lists commands\n", engine_.info().name);
    }
    LineReader lines(interruption_);
    while (true) {
      if (is_interactive) {
        print_note("> ");
        std::fflush(stderr);
      }
      std::string line;
      if (!lines.read(line)) {
        print_note("{}", is_interactive ? "\n" : "");
        return 0;
      }
      if (lines.was_cut()) {
        print_note(
            "the terminal passes on {} bytes of a line, the rest of this one is lost: nothing was "
            "sent (end shorter lines with \\, or use -p - < FILE)\n",
            kMaxTerminalLine);
        continue;
      }
      const ChatLine said = parse_chat_line(line);
      if (said.kind == Kind::kExit) {
        return 0;
      }
      if (auto done = take(said); !done) {
        // Somebody who types can go on; a script must see the failure.
        if (::isatty(STDIN_FILENO) == 0) {
          return propagate(done);
        }
        print_note("{} (/clear forgets the conversation)\n", done.error().message);
      }
    }
  }

 private:
  Result<void> take(const ChatLine& said) {
    switch (said.kind) {
      case Kind::kMessage:
        conversation_.add_message(said.text);
        n_repeats_ = 0;
        return answer();
      case Kind::kRegenerate:
        if (!conversation_.reopen()) {
          print_note("there is no answer yet\n");
          return {};
        }
        ++n_repeats_;
        return answer();
      case Kind::kClear:
        conversation_.clear();
        confirm(conversation_.has_system()
                    ? "the conversation is forgotten, but for the system message"
                    : "the conversation is forgotten");
        return {};
      case Kind::kSystem:
        conversation_.set_system(said.text);
        confirm(conversation_.has_system() ? "the system message is set"
                                           : "there is no system message");
        return {};
      case Kind::kHelp:
        print_note("{}", chat_help());
        return {};
      case Kind::kUnexpectedText:
        print_note("{} takes no text behind it\n", said.text);
        return {};
      case Kind::kUnknown:
        complain(said.text);
        return {};
      case Kind::kEmpty:
      case Kind::kExit:
        break;
    }
    return {};
  }

  static void complain(const std::string& command) {
    if (const auto* row = find_foreign_name(ForeignKind::kChatCommand, command)) {
      print_note("there is no command {}, here: {}\n", command, row->here);
      return;
    }
    std::vector<std::string> names;
    for (const ChatCommand& known : kCommands) {
      names.emplace_back(known.name);
    }
    const std::string near = nearest_name(command, names);
    print_note(
        "there is no command {}{} (/help lists them; //... sends a message that begins "
        "with a slash)\n",
        command,
        near.empty() ? "" : ", did you mean " + near + "?");
  }

  // What a command has done, for somebody who types it.
  void confirm(std::string_view what) const {
    if (!options_.is_quiet && !options_.is_json) {
      print_note("{}\n", what);
    }
  }

  // Answers the open question; if that fails, the question is dropped.
  Result<void> answer() {
    auto done = try_to_answer();
    if (!done) {
      conversation_.drop_last();
    }
    interruption_.take();  // Ctrl-C ends an answer, not the chat
    return done;
  }

  Result<void> try_to_answer() {
    auto prompt = encode_chat(engine_, conversation_.messages());
    if (!prompt) {
      return propagate(prompt);
    }
    Request request = options_.request();
    request.prompt = std::move(*prompt);
    if (request.seed) {
      *request.seed += n_repeats_;  // else the same answer would come again
    }
    const std::optional<int64_t> max_tokens = request.max_tokens;
    const auto answer =
        generate(engine_, std::move(request), &interruption_, [&](const std::string& text) {
          if (!options_.is_json) {
            std::fwrite(text.data(), 1, text.size(), stdout);
            std::fflush(stdout);
          }
        });
    if (!answer) {
      return propagate(answer);
    }
    fmt::print("{}\n", options_.is_json ? answer_json(engine_, *answer) : "");
    std::fflush(stdout);
    if (!options_.is_quiet && !options_.is_json) {
      print_note("[{}]\n", timings_text(answer->finish));
      const std::string note = cut_note(answer->finish, max_tokens, engine_.info().max_model_len);
      if (!note.empty()) {
        print_note("[{}{}]\n", note, max_tokens ? "" : " (/clear forgets the conversation)");
      }
    }
    conversation_.add_answer(answer->text);
    return {};
  }

  Engine& engine_;
  const RunOptions& options_;
  Interruption& interruption_;
  Conversation conversation_;
  uint64_t n_repeats_ = 0;  // of the last answer
};

}  // namespace

ChatLine parse_chat_line(const std::string& line) {
  if (line.find_first_not_of(" \t\r\n") == std::string::npos) {
    return {};
  }
  if (!line.starts_with('/')) {
    return {Kind::kMessage, line};
  }
  if (line.starts_with("//")) {
    return {Kind::kMessage, line.substr(1)};
  }
  const size_t end = std::min(line.find_first_of(" \t\r\n"), line.size());
  const std::string name = line.substr(0, end);
  const size_t begin = line.find_first_not_of(" \t\r\n", end);
  const std::string rest = begin == std::string::npos ? "" : line.substr(begin);
  for (const ChatCommand& command : kCommands) {
    if (name == command.name) {
      const bool takes_text = command.kind == Kind::kSystem;
      return takes_text || rest.empty() ? ChatLine{command.kind, rest}
                                        : ChatLine{Kind::kUnexpectedText, name};
    }
  }
  return {Kind::kUnknown, name};
}

std::string chat_help() {
  std::string text;
  for (const ChatCommand& command : kCommands) {
    text += fmt::format("  {:8} {}\n", command.name, command.help);
  }
  return text +
         "A line that ends in \\ goes on in the next one. // begins a message with a slash.\n"
         "Ctrl-C ends an answer, or the chat when none is being made.\n";
}

bool Conversation::reopen() {
  if (turns_.empty() || turns_.back().role != "assistant") {
    return false;
  }
  turns_.pop_back();
  return true;
}

void Conversation::set_system(std::string text) {
  if (text.empty()) {
    system_.reset();
  } else {
    system_ = std::move(text);
  }
}

Value Conversation::messages() const {
  Value messages = Value::list({});
  const auto add = [&](std::string_view role, std::string_view text) {
    messages.append(Value::dict({{"role", Value(role)}, {"content", Value(text)}}));
  };
  if (system_) {
    add("system", *system_);
  }
  for (const Turn& turn : turns_) {
    add(turn.role, turn.text);
  }
  return messages;
}

Result<int> chat(Engine& engine, const RunOptions& options, Interruption& interruption) {
  return Chat(engine, options, interruption).run();
}

}  // namespace millrace

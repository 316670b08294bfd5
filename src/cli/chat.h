#pragma once
// The interactive chat of millrace run: a line is a message, lines with a slash are commands. Main
// thread.

#include <optional>
#include <string>
#include <vector>

#include "cli/generate.h"
#include "cli/run_options.h"

namespace millrace {

// What a line says.
struct ChatLine {
  enum class Kind {
    kEmpty,
    kMessage,
    kHelp,
    kExit,
    kClear,
    kSystem,
    kRegenerate,
    kUnexpectedText,
    kUnknown
  };
  Kind kind = Kind::kEmpty;
  std::string text;  // of the message, of /system, or the command that is unknown or takes none

  bool operator==(const ChatLine&) const = default;
};

// "//x" is the message "/x". /system without a text takes the system message away.
ChatLine parse_chat_line(const std::string& line);

std::string chat_help();

class Conversation {
 public:
  explicit Conversation(std::optional<std::string> system) : system_(std::move(system)) {}

  void add_message(std::string text) { turns_.push_back({"user", std::move(text)}); }
  void add_answer(std::string text) { turns_.push_back({"assistant", std::move(text)}); }
  // Takes the last answer back, so that its question stands open. False: there is none.
  bool reopen();
  void drop_last() { turns_.pop_back(); }
  void clear() { turns_.clear(); }  // keeps the system message
  void set_system(std::string text);
  bool has_system() const { return system_.has_value(); }

  Value messages() const;

 private:
  struct Turn {
    std::string role;
    std::string text;
  };
  std::optional<std::string> system_;
  std::vector<Turn> turns_;
};

// The engine has a chat template. Answers go to standard output, each with a line end behind it.
Result<int> chat(Engine& engine, const RunOptions& options, Interruption& interruption);

}  // namespace millrace

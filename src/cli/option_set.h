#pragma once
// The options of one command. Each is declared once: name, default, range and help come from that
// line, and so do parsing, --help and the documentation. Main thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

class OptionSet {
 public:
  // usage: what follows "millrace" in the first line of --help, "run MODEL [options]".
  OptionSet(std::string usage, std::string description);
  ~OptionSet();
  OptionSet(const OptionSet&) = delete;
  OptionSet& operator=(const OptionSet&) = delete;

  // Names as "-n,--max-tokens", or "MODEL" for a required argument in its place. The variable's
  // value is the default and is shown in the help.
  void add(const char* names, std::string& value, const char* help);
  void add(const char* names, std::vector<std::string>& values, const char* help);  // repeatable
  void add(const char* names, bool& value, const char* help);  // a flag that sets it to true
  void add(const char* names, int& value, int low, int high, const char* help);
  void add(const char* names, int64_t& value, int64_t low, int64_t high, const char* help);
  void add(const char* names, float& value, double low, double high, const char* help);
  void add(const char* names, double& value, double low, double high, const char* help);
  void add(
      const char* names, std::optional<int64_t>& value, int64_t low, int64_t high, const char*);
  void add(const char* names, std::optional<double>& value, double low, double high, const char*);
  void add(const char* names, std::optional<std::string>& value, const char* help);

  // Parses and runs the command; 0 when help was asked for and shown.
  Result<int> run(std::span<const std::string> arguments,
                  const std::function<Result<int>()>& command);

  enum class Outcome { kRun, kHelpShown };
  // Unknown options are answered all at once, each with what it is here, or else with the nearest.
  Result<Outcome> parse(std::span<const std::string> arguments);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// The candidate with the fewest edits, if they are few; empty: none is near.
std::string nearest_name(const std::string& name, std::span<const std::string> candidates);

}  // namespace millrace

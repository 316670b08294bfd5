#pragma once
// The commands of the program. Each has one file; run() gets what follows the command's name and
// returns the exit status, or the error whose message is shown.

#include <span>
#include <string>

#include "base/result.h"

namespace millrace {

using Arguments = std::span<const std::string>;

struct Command {
  const char* name;
  const char* summary;
  Result<int> (*run)(Arguments arguments);
};

std::span<const Command> commands();

Result<int> run_command(Arguments arguments);
Result<int> serve_command(Arguments arguments);
Result<int> bench_command(Arguments arguments);
Result<int> load_command(Arguments arguments);
Result<int> simulate_command(Arguments arguments);
Result<int> inspect_command(Arguments arguments);
Result<int> synth_command(Arguments arguments);

// The whole program: 0, or 1 with one line on standard error that says what to do.
int run_millrace(int argc, const char* const* argv);

}  // namespace millrace

#include "cli/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/foreign_names.h"
#include "cli/http_client.h"
#include "cli/note.h"
#include "cli/option_set.h"
#include "cli/version.h"

namespace millrace {
namespace {

constexpr std::array kCommands = {
    Command{"run", "one answer to the terminal; without -p an interactive chat", run_command},
    Command{"serve", "the server with OpenAI's API", serve_command},
    Command{"bench", "prefill and decode speed against the machine's limit", bench_command},
    Command{"load", "a load generator for any OpenAI-compatible server", load_command},
    Command{
        "simulate", "a trace of requests through the scheduler, without a model", simulate_command},
    Command{"inspect", "metadata, tensors and memory plan of a model", inspect_command},
    Command{"synth", "a random model of a published shape, for benchmarks", synth_command},
};

std::string overview() {
  std::string text = "Usage: millrace COMMAND [options]\n\n";
  for (const Command& command : kCommands) {
    text += fmt::format("  {:9} {}\n", command.name, command.summary);
  }
  return text +
         "\nMODEL is a GGUF file, a Hugging Face folder with safetensors, or demo for the model "
         "inside\nthis program:\n\n"
         "  millrace run demo -p \"Tell me a story.\"\n"
         "  millrace serve demo\n\n"
         "millrace COMMAND --help shows the options of a command, --version the version.\n"
         "Results go to standard output, all else to standard error. Exit status: 0, or 1 with "
         "one\n"
         "line on standard error that says what is wrong; 128 and the signal's number when a "
         "signal\n"
         "cut the answer of run -p off, or load short. MILLRACE_ISA in the environment picks an\n"
         "instruction set below the processor's best: scalar, avx2, avx-vnni, avx512 or "
         "avx512-bf16.\n";
}

// Names in files may be anything and of any length, and reach messages.
int report(const Error& error) {
  constexpr size_t kMostShown = 8192;  // longer than two paths
  const std::string line = printable_line(std::string_view(error.message).substr(0, kMostShown));
  const size_t n_left = error.message.size() - std::min(error.message.size(), kMostShown);
  print_note(
      "millrace: {}{}\n", line, n_left == 0 ? "" : fmt::format("... ({} bytes more)", n_left));
  return 1;
}

// A descriptor of ours must never take the number of a standard stream that the caller closed. One
// that cannot be written: what should have gone there is lost, and the exit status says so.
void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) == -1 && ::open("/dev/null", O_RDONLY) != descriptor) {
      std::abort();
    }
  }
}

// A mapped file that became shorter ends the program where it is read: nothing can stand for
// what is gone.
void on_lost_page(int) {
  constexpr std::string_view kText =
      "millrace: a file that is read as memory became shorter or cannot be read\n";
  [[maybe_unused]] const ssize_t n = ::write(2, kText.data(), kText.size());
  ::_exit(1);
}

// For a name that is no command: what to type instead, if that can be guessed.
std::string command_hint(const std::string& name, std::span<const std::string> names) {
  if (const auto* row = find_foreign_name(ForeignKind::kCommand, name)) {
    return fmt::format(", here: {}", row->here);
  }
  if (name == "-m" || name == "--model") {
    return ", did you mean millrace run MODEL -p TEXT?";
  }
  std::error_code ignored;
  if (name == "demo" || name.ends_with(".gguf") ||
      (!name.empty() &&
       std::filesystem::exists(std::filesystem::path(name) / "config.json", ignored))) {
    return fmt::format(", did you mean millrace run {}?", name);
  }
  if (name.starts_with('-')) {
    return " (a command comes first: millrace run MODEL -p TEXT)";
  }
  const std::string near = nearest_name(name, names);
  return near.empty() ? "" : ", did you mean " + near + "?";
}

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(overview().c_str(), stderr);
    return 1;
  }
  const std::string& name = arguments[0];
  if (name == "help" && arguments.size() > 1) {  // millrace help run
    return dispatch({arguments[1], "--help"});
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(overview().c_str(), stdout);
    return 0;
  }
  if (name == "--version") {
    fmt::print("millrace {}\n", kVersion);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
    if (name == command.name) {
      const auto status = command.run(Arguments(arguments).subspan(1));
      return status ? *status : report(status.error());
    }
  }
  return report({ErrorCode::kInvalidArgument,
                 fmt::format("there is no command {}{} (millrace --help lists the commands)",
                             name,
                             command_hint(name, names))});
}

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

int run_millrace(int argc, const char* const* argv) {
  open_standard_streams();
  std::signal(SIGBUS, on_lost_page);
  int status = 1;
  try {
    status = dispatch(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::system_error& error) {  // fmt::print could not write
    return report({ErrorCode::kIo, fmt::format("standard output: {}", error.what())});
  } catch (
      const std::bad_alloc&) {  // of a small piece: large ones are asked for and can be refused
    return report({ErrorCode::kResourceExhausted, "out of memory"});
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return report({ErrorCode::kIo, "standard output: not everything could be written"});
  }
  return status;
}

}  // namespace millrace

#include "cli/progress.h"

#include "cli/note.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace millrace {

Progress::Progress(std::string what)
    : what_(std::move(what)), is_terminal_(::isatty(STDERR_FILENO) != 0) {}

void Progress::show(double fraction) {
  const int percent = static_cast<int>(fraction * 100);
  if (percent != shown_percent_) {
    shown_percent_ = percent;
    show(fmt::format("{:3}%", percent));
  }
}

void Progress::show(const std::string& text) {
  if (is_terminal_) {
    print_note("\r\033[K{} {}", what_, text);
    std::fflush(stderr);
    has_line_ = true;
  }
}

void Progress::clear() {
  if (has_line_) {
    print_note("\r\033[K");
    std::fflush(stderr);
    has_line_ = false;
  }
}

}  // namespace millrace

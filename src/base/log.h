#pragma once
// The process log: one line an event on standard error, with the local time in ISO 8601, never
// prompt text. Any thread. The only global of the project; spdlog is hidden in log.cpp.

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace millrace {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

void set_log_level(LogLevel level);
bool is_logged(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (is_logged(LogLevel::kDebug)) {
    log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (is_logged(LogLevel::kInfo)) {
    log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace millrace

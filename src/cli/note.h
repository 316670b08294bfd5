#pragma once
// What is for people and no result goes to standard error. Main thread, and those of signals.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace millrace {

// Unlike fmt::print, no failure of standard error stops a program whose results go elsewhere.
template <class... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace millrace

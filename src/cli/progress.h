#pragma once
// One line of progress on standard error, only when that is a terminal. One thread.

#include <string>

namespace millrace {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Writes only when the whole percentage has changed.
  void show(double fraction);
  // Writes any text in the line's place.
  void show(const std::string& text);
  void clear();

 private:
  const std::string what_;
  const bool is_terminal_;
  int shown_percent_ = -1;
  bool has_line_ = false;
};

}  // namespace millrace

#pragma once
// Files of prompts: --prompts, --warm. Main thread.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

struct PromptLine {
  int64_t number = 0;  // in the file, from 1
  std::string text;
};

// One prompt a line, blank ones left out; "-": standard input. Errors begin with the option.
Result<std::vector<PromptLine>> read_prompt_lines(const std::string& option,
                                                  const std::string& path);
// The texts alone.
Result<std::vector<std::string>> read_prompt_file(const std::string& option,
                                                  const std::string& path);

}  // namespace millrace

#pragma once
// Files of prompts: --prompts, --warm. Main thread.

#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

// One prompt a line, blank ones left out; "-": standard input. Errors begin with the option.
Result<std::vector<std::string>> read_prompt_file(const std::string& option,
                                                  const std::string& path);

}  // namespace millrace

#pragma once
// The file of --prompts. Main thread.

#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

// One prompt a line, blank ones left out; "-": standard input. Errors name --prompts.
Result<std::vector<std::string>> read_prompt_file(const std::string& path);

}  // namespace millrace

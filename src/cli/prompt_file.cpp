#include "cli/prompt_file.h"

#include <unistd.h>

#include <sstream>
#include <utility>

#include "base/regular_file.h"

namespace millrace {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 30;

}  // namespace

Result<std::vector<PromptLine>> read_prompt_lines(const std::string& option,
                                                  const std::string& path) {
  const auto content = path == "-" ? read_to_end(STDIN_FILENO, "standard input", kMaxBytes)
                                   : read_regular_file(path, kMaxBytes);
  if (!content) {
    return fail(content.error().code, "{} {}", option, content.error().message);
  }
  std::istringstream lines(*content);
  std::vector<PromptLine> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (line.find_first_not_of(" \t") != std::string::npos) {
      prompts.push_back({.number = number, .text = std::move(line)});
    }
  }
  if (prompts.empty()) {
    return fail(ErrorCode::kInvalidArgument, "{} {}: holds no prompt (one a line)", option, path);
  }
  return prompts;
}

Result<std::vector<std::string>> read_prompt_file(const std::string& option,
                                                  const std::string& path) {
  auto lines = read_prompt_lines(option, path);
  if (!lines) {
    return propagate(lines);
  }
  std::vector<std::string> prompts;
  for (PromptLine& line : *lines) {
    prompts.push_back(std::move(line.text));
  }
  return prompts;
}

}  // namespace millrace

#pragma once
// serve --warm: prompts that are in the cache, and on disk where there is one that takes them,
// before the first request. Main thread.

#include <span>
#include <string>

#include "base/result.h"
#include "cli/prompt_file.h"
#include "engine/engine.h"

namespace millrace {

class Service;

// Computes each prompt (see parse_warm_prompt), or finds it, and waits until all of it is written
// or the disk has failed to, which is logged and no error.
// path: of the file, for errors, which say in which line.
Result<void> warm_up(const Service& service,
                     Engine& engine,
                     std::span<const PromptLine> prompts,
                     const std::string& path);

}  // namespace millrace

#pragma once
// How far ahead an engine guesses, and with what: the options of speculation. Main thread.

#include <optional>
#include <string>

#include "engine/engine.h"

namespace millrace {

class OptionSet;

struct DraftOptions {
  std::optional<std::string> model;
  int max_drafts = EngineOptions{}.max_drafts;

  void declare(OptionSet& options);
};

}  // namespace millrace

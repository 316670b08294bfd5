#pragma once
// How far ahead an engine guesses, and with what: the options of speculation. Main thread.

#include <optional>
#include <string>

#include "engine/engine.h"

namespace millrace {

class OptionSet;

struct DraftOptions {
  std::string mode = "auto";
  std::optional<std::string> model;
  int max_drafts = EngineOptions{}.max_drafts;

  void declare(OptionSet& options);
  void declare_draft(OptionSet& options);  // all but --speculate
  // Sets what the options ask of an engine; says which two of them exclude each other.
  Result<void> apply(EngineOptions& engine_options) const;
};

}  // namespace millrace

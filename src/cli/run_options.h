#pragma once
// What millrace run is asked for. Main thread.

#include <optional>
#include <string>
#include <vector>

#include "cli/draft_options.h"
#include "cli/model_options.h"
#include "engine/request.h"

namespace millrace {

struct RunOptions {
  ModelOptions model;
  DraftOptions draft;
  std::optional<std::string> prompt;
  std::optional<std::string> system;
  std::optional<int64_t> max_tokens;  // -1: what the window leaves, as absent
  SamplingParams sampling;
  std::optional<int64_t> seed;
  std::vector<std::string> stop;
  bool is_raw = false;
  bool ignore_eos = false;
  bool is_quiet = false;
  bool is_json = false;

  void declare(OptionSet& options);
  // What can be said without a model: options that exclude each other, stop strings.
  Result<void> check() const;
  // Puts what standard input holds in the place of the prompt "-".
  Result<void> read_prompt();
  Request request() const;  // without a prompt
};

}  // namespace millrace

#pragma once
// What guessing tokens ahead brings: the same answers with and without, in turns. Main thread.

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/json_object.h"
#include "engine/engine.h"

namespace millrace {

// One kind of prompt.
struct SpeculationResult {
  std::string name;
  double plain = 0;  // tokens/s of all answers, medians
  double speculative = 0;
  double ratio = 0;        // median of the ratios of the pairs
  double whole_ratio = 0;  // the same with the time for the prompt
  int64_t n_pairs = 0;     // that were compared; one more comes first and is not counted
  int64_t n_tokens = 0;    // of the answers
  int64_t n_accepted = 0;  // of them, guessed
  int64_t n_rejected = 0;  // guesses that were wrong

  bool has_guesses() const { return n_accepted + n_rejected > 0; }
  // Tokens that a pass over the weights brings.
  double tokens_per_pass() const;
};

struct SpeculationReport {
  std::vector<SpeculationResult> results;
  // Of the first, second, ... token of a guess: how often it was right when those before it were.
  std::vector<double> right_at;
};

struct SpeculationSize {
  int n_tokens = 64;      // of an answer, at most
  int n_repetitions = 5;  // pairs of answers to each prompt; more when they are short
  int n_sequences = 1;    // answers made at once, to prompts that differ at their end
};

// The engine speculates; it has neither a prefix cache nor other requests. prompts: empty for the
// built-in ones, of four kinds. kInternal when an answer differs from the one without guesses.
Result<SpeculationReport> bench_speculation(Engine& engine,
                                            const std::vector<std::string>& prompts,
                                            const SpeculationSize& size);

std::string speculation_text(const SpeculationReport& report);
JsonObject speculation_json(const SpeculationReport& report);

}  // namespace millrace

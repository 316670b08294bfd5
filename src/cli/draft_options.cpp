#include "cli/draft_options.h"

#include "cli/option_set.h"

namespace millrace {

void DraftOptions::declare(OptionSet& options) {
  options.add("--draft",
              model,
              "A smaller model with the same tokenizer that guesses tokens ahead; the text stays "
              "the same");
  options.add("--draft-max",
              max_drafts,
              0,
              kMaxDrafts,
              "Tokens guessed at most ahead of an answer, by the draft model or from what came "
              "before, and checked in one step; 0: none");
}

}  // namespace millrace

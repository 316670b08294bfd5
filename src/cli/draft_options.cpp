#include "cli/draft_options.h"

#include "cli/option_set.h"

namespace millrace {

void DraftOptions::declare(OptionSet& options) {
  options.add("--speculate",
              mode,
              "Where guesses at the next tokens come from: ngram (what followed the same tokens "
              "before), draft (the model of --draft), auto (both) or off; the text stays the same");
  declare_draft(options);
}

void DraftOptions::declare_draft(OptionSet& options) {
  options.add("--draft",
              model,
              "A smaller model with the same tokenizer that guesses tokens ahead; default: none");
  options.add("--draft-max",
              max_drafts,
              0,
              kMaxDrafts,
              "Tokens guessed at most ahead of an answer and checked in one step; 0: none");
}

Result<void> DraftOptions::apply(EngineOptions& engine_options) const {
  const bool is_ngram = mode == "ngram";
  const bool is_draft = mode == "draft";
  const bool is_off = mode == "off";
  if (!is_ngram && !is_draft && !is_off && mode != "auto") {
    return fail(ErrorCode::kInvalidArgument,
                "--speculate: expected auto, ngram, draft or off, got {}",
                mode);
  }
  if (is_draft && !model) {
    return fail(ErrorCode::kInvalidArgument, "--speculate draft needs a model: --draft MODEL");
  }
  if ((is_ngram || is_off) && model) {
    return fail(ErrorCode::kInvalidArgument, "--speculate {} has no use for --draft", mode);
  }
  engine_options.max_drafts = is_off ? 0 : max_drafts;
  engine_options.copies_drafts = !is_draft;
  return {};
}

}  // namespace millrace

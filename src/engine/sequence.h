#pragma once
// The engine's state of a request and of each of its choices. Engine thread; workers read sequences
// while they sample.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/request.h"
#include "engine/step_plan.h"
#include "engine/text_stream.h"
#include "engine/token_stream.h"
#include "kv/block_key.h"
#include "sample/token_history.h"
#include "spec/acceptance.h"
#include "spec/proposer.h"

namespace millrace {

// One request, shared by its choices.
struct RequestState {
  Request request;
  int64_t max_new = 0;  // tokens, for each choice
  uint64_t seed = 0;
  std::vector<TokenId> end_tokens;  // that end an answer, ascending
  std::shared_ptr<TokenStream> stream;
  TimePoint submitted;
  std::optional<TimePoint> deadline;
  int n_unfinished = 0;       // choices
  bool has_started = false;   // one of them has been admitted
  bool has_answered = false;  // one of them has a token, or is whole
  bool has_events = false;    // pushed in this step, notify() due
};

// One choice. While it waits for its first admission it takes little memory, whatever its request
// asks for: far more sequences may wait than run, and the memory plan counts those that run.
struct SequenceState {
  SequenceState(SequenceId id, int choice, std::shared_ptr<RequestState> state);

  // Once, at the first admission: makes all that computing needs.
  void prepare(const Tokenizer& tokenizer, int max_drafts);
  bool is_prepared() const { return text.has_value(); }

  int64_t n_prompt() const { return static_cast<int64_t>(state->request.prompt.size()); }
  int64_t n_output() const { return std::ssize(known_tokens()) - n_prompt(); }
  // Prompt, then output. Their address changes with prepare().
  const std::vector<TokenId>& known_tokens() const {
    return is_prepared() ? tokens : state->request.prompt;
  }
  const Request& request() const { return state->request; }
  bool is_end(TokenId token) const;
  // Tokens that must not be drawn there.
  std::span<const TokenId> banned(int64_t position) const;

  SequenceId id;
  int choice;
  std::shared_ptr<RequestState> state;
  uint64_t seed;
  std::vector<TokenId> tokens;  // prompt, then output; empty before prepare()
  bool has_history;
  TokenHistory history;
  std::optional<TextStream> text;  // absent before prepare()
  Proposer proposer;
  Acceptance copy_acceptance;   // of drafts from tokens seen before
  Acceptance model_acceptance;  // of those by the draft model
  bool is_model_drafted = false;
  TokenId copied_guess = kNoToken;  // the first of the copy that could be drafted in this step
  bool is_draft_following = false;  // the draft model computes the prompt too, as it comes
  int64_t n_draft_computed = 0;     // tokens whose KV the draft model has
  std::vector<TokenId> drafts;      // of the next step
  bool is_decoding = false;         // all but the last token are computed
  int64_t n_accepted = 0;           // drafts that came true
  int64_t n_rejected = 0;
  PromptEvent prompt_scores;  // filled as the prompt is computed
  bool is_admitted = false;
  int64_t n_cached = 0;  // tokens of the prompt that were in the cache at the first admission
  std::vector<BlockKey> tier_keys;  // of whole blocks of tokens, where there is a tier
  int64_t loaded_begin = 0;         // tokens that a tier brought for it
  int64_t loaded_end = 0;
  TimePoint admitted;
  TimePoint first_token;
  TimePoint last_token;
};

}  // namespace millrace

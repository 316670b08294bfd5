#include "engine/sequence.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/engine.h"
#include "sample/sampler.h"

namespace millrace {

SequenceState::SequenceState(SequenceId id_, int choice_, std::shared_ptr<RequestState> state_)
    : id(id_),
      choice(choice_),
      state(std::move(state_)),
      seed(child_seed(state->seed, choice)),
      has_history(uses_history(state->request.sampling)) {}

void SequenceState::prepare(const Tokenizer& tokenizer, int max_drafts) {
  const std::vector<TokenId>& prompt = request().prompt;
  text.emplace(tokenizer, prompt, request().stop);
  if (request().prompt_logprobs) {
    prompt_scores.entries.resize(prompt.size());
    prompt_scores.entries[0] = {.token = prompt[0],
                                .logprob = std::numeric_limits<float>::quiet_NaN()};
  }
  if (!request().prediction.empty()) {
    proposer.expect(prompt, request().prediction);
  }
  drafts.reserve(static_cast<size_t>(max_drafts));
  constexpr size_t kReserved = 4096;  // tokens; beyond, memory grows by doubling
  const size_t n_tokens = prompt.size() + std::min(static_cast<size_t>(state->max_new), kReserved);
  tokens.reserve(n_tokens);
  tokens = prompt;
  if (has_history) {
    history.reserve(n_tokens);
    history.add_prompt(tokens);
  }
}

bool SequenceState::is_end(TokenId token) const {
  return std::binary_search(state->end_tokens.begin(), state->end_tokens.end(), token);
}

std::span<const TokenId> SequenceState::banned(int64_t position) const {
  if (position - n_prompt() < request().min_tokens) {
    return state->end_tokens;
  }
  return {};
}

}  // namespace millrace

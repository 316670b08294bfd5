#include "spec/proposer.h"

#include <algorithm>
#include <utility>

namespace millrace {

void AnswerLog::add(std::span<const TokenId> answer) {
  const auto n_answer = static_cast<int64_t>(answer.size());
  if (n_answer == 0 || n_answer > max_tokens_ / 2) {
    return;
  }
  if (newer_.n_tokens() + n_answer + 1 > max_tokens_ / 2) {
    std::swap(newer_, older_);
    newer_.tokens.clear();
    newer_.index.clear();
  }
  newer_.tokens.reserve(static_cast<size_t>(max_tokens_ / 2));
  newer_.tokens.insert(newer_.tokens.end(), answer.begin(), answer.end());
  newer_.tokens.push_back(kNoToken);
  newer_.index.extend(newer_.tokens, newer_.n_tokens());
}

bool AnswerLog::propose(std::span<const TokenId> tokens,
                        int n,
                        int64_t longer_than,
                        std::vector<TokenId>& drafts) const {
  const Half* best = nullptr;
  NgramIndex::Match match{.length = longer_than};
  for (const Half* half : {&newer_, &older_}) {
    const NgramIndex::Match found = half->index.find(half->tokens, tokens);
    if (found.length > match.length) {
      best = half;
      match = found;
    }
  }
  if (best != nullptr) {
    append_follow(best->tokens, match.end, n, drafts);
  }
  return best != nullptr;
}

void Proposer::expect(std::span<const TokenId> prompt, std::span<const TokenId> answer) {
  const size_t n_end = std::min<size_t>(prompt.size(), NgramIndex::kMaxMatch);
  expected_.assign(prompt.end() - static_cast<std::ptrdiff_t>(n_end), prompt.end());
  expected_.insert(expected_.end(), answer.begin(), answer.end());
  // A match at its end is of no use: nothing follows.
  expected_index_.extend(expected_, static_cast<int64_t>(expected_.size()) - 1);
}

void Proposer::propose(std::span<const TokenId> tokens,
                       int n,
                       const AnswerLog* log,
                       std::vector<TokenId>& drafts) {
  index_.extend(tokens, static_cast<int64_t>(tokens.size()) - 1);  // the last would find itself
  const NgramIndex::Match own = index_.find(tokens, tokens);
  const NgramIndex::Match expected = expected_index_.find(expected_, tokens);
  if (log != nullptr && log->propose(tokens, n, std::max(own.length, expected.length), drafts)) {
    return;
  }
  if (expected.length > 0 && expected.length >= own.length) {
    const int64_t n_left = static_cast<int64_t>(expected_.size()) - expected.end;
    append_follow(expected_, expected.end, static_cast<int>(std::min<int64_t>(n, n_left)), drafts);
  } else if (own.length > 0) {
    append_follow(tokens, own.end, n, drafts);
  }
}

}  // namespace millrace

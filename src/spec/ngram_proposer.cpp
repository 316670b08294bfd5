#include "spec/ngram_proposer.h"

#include <algorithm>
#include <bit>

namespace millrace {

uint32_t NgramProposer::hash_of(const TokenId* last_of_three) {
  uint32_t hash = 0;
  for (int i = 0; i < kMinMatch; ++i) {
    hash = (hash ^ static_cast<uint32_t>(last_of_three[-i])) * 0x9E3779B1U;
  }
  return hash ^ hash >> 15;
}

void NgramProposer::insert(std::span<const TokenId> tokens, int64_t end) {
  uint32_t& latest = latest_[hash_of(&tokens[static_cast<size_t>(end - 1)]) & (latest_.size() - 1)];
  previous_[static_cast<size_t>(end)] = latest;
  latest = static_cast<uint32_t>(end);
}

void NgramProposer::rebuild(std::span<const TokenId> tokens) {
  latest_.assign(std::bit_ceil(std::max<size_t>(2 * tokens.size(), 512)), 0);
  previous_.reserve(latest_.size());
  previous_.assign(kMinMatch, 0);
}

// Every place but the last, which would only find itself.
void NgramProposer::index(std::span<const TokenId> tokens) {
  if (latest_.size() < tokens.size()) {
    rebuild(tokens);
  }
  while (previous_.size() < tokens.size()) {
    previous_.push_back(0);
    insert(tokens, std::ssize(previous_) - 1);
  }
}

void NgramProposer::propose(std::span<const TokenId> tokens, int n, std::vector<TokenId>& drafts) {
  const int64_t n_tokens = std::ssize(tokens);
  if (n_tokens <= kMinMatch || n <= 0) {
    return;
  }
  index(tokens);
  int64_t best_length = kMinMatch - 1;
  int64_t best_end = 0;
  uint32_t end = latest_[hash_of(&tokens.back()) & (latest_.size() - 1)];
  for (int i = 0; i < kMaxCandidates && end != 0; ++i, end = previous_[end]) {
    const int64_t limit = std::min<int64_t>(end, kMaxMatch);
    int64_t length = 0;
    while (length < limit && tokens[static_cast<size_t>(end - 1 - length)] ==
                                 tokens[static_cast<size_t>(n_tokens - 1 - length)]) {
      ++length;
    }
    if (length > best_length) {
      best_length = length;
      best_end = end;
    }
  }
  // The copy may run into itself, as in LZ77: a repetition goes on for ever.
  const size_t first = drafts.size();
  for (int i = 0; best_end > 0 && i < n; ++i) {
    const int64_t place = best_end + i;
    drafts.push_back(place < n_tokens ? tokens[static_cast<size_t>(place)]
                                      : drafts[first + static_cast<size_t>(place - n_tokens)]);
  }
}

}  // namespace millrace

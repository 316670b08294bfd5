#include "spec/ngram_index.h"

#include <algorithm>
#include <bit>

namespace millrace {

uint32_t NgramIndex::hash_of(const TokenId* last) {
  uint32_t hash = 0;
  for (int i = 0; i < kMinMatch; ++i) {
    hash = (hash ^ static_cast<uint32_t>(last[-i])) * 0x9E3779B1U;
  }
  return hash ^ hash >> 15;
}

void NgramIndex::clear() {
  latest_.clear();
  previous_.clear();
}

void NgramIndex::extend(std::span<const TokenId> tokens, int64_t n) {
  if (std::ssize(latest_) <= n) {  // a larger table, everything anew
    latest_.assign(std::bit_ceil(static_cast<size_t>(std::max(n + 1, kMinPlaces))), 0);
    previous_.reserve(latest_.size());
    previous_.clear();
  }
  for (int64_t end = std::ssize(previous_); end <= n; ++end) {
    if (end < kMinMatch) {
      previous_.push_back(0);
      continue;
    }
    uint32_t& latest = latest_[slot_of(&tokens[static_cast<size_t>(end - 1)])];
    previous_.push_back(latest);
    latest = static_cast<uint32_t>(end);
  }
}

NgramIndex::Match NgramIndex::find(std::span<const TokenId> tokens,
                                   std::span<const TokenId> query) const {
  Match best{.length = kMinMatch - 1};
  const int64_t n_query = std::ssize(query);
  if (n_query < kMinMatch || latest_.empty()) {
    return {};
  }
  uint32_t end = latest_[slot_of(&query.back())];
  for (int i = 0; i < kMaxCandidates && end != 0; ++i, end = previous_[end]) {
    const int64_t limit = std::min<int64_t>({end, n_query, kMaxMatch});
    int64_t length = 0;
    while (length < limit && tokens[static_cast<size_t>(end - 1 - length)] ==
                                 query[static_cast<size_t>(n_query - 1 - length)]) {
      ++length;
    }
    if (length > best.length) {
      best = {.end = end, .length = length};
    }
  }
  return best.end > 0 ? best : Match{};
}

void append_follow(std::span<const TokenId> tokens,
                   int64_t end,
                   int n,
                   std::vector<TokenId>& drafts) {
  const size_t first = drafts.size();
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  for (int64_t place = end; place < end + n; ++place) {
    const TokenId token = place < n_tokens ? tokens[static_cast<size_t>(place)]
                                           : drafts[first + static_cast<size_t>(place - n_tokens)];
    if (token == kNoToken) {
      return;
    }
    drafts.push_back(token);
  }
}

}  // namespace millrace

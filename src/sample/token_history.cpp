#include "sample/token_history.h"

#include <bit>

#include "base/check.h"

namespace millrace {

// The slot that holds the token, or the empty one where it belongs.
size_t TokenHistory::slot_of(TokenId token) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = (static_cast<uint32_t>(token) * 0x9E3779B1U >> 7) & mask;
  while (slots_[slot] != 0 && entries_[slots_[slot] - 1].token != token) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void TokenHistory::reserve(size_t n_tokens) {
  entries_.reserve(n_tokens);
  if (slots_.size() <= 2 * n_tokens) {
    set_slots(std::bit_ceil(2 * n_tokens + 1));
  }
}

void TokenHistory::set_slots(size_t n) {
  slots_.assign(n, 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    slots_[slot_of(entries_[i].token)] = static_cast<uint32_t>(i + 1);
  }
}

TokenHistory::Entry& TokenHistory::find_or_insert(TokenId token) {
  if (entries_.size() * 2 >= slots_.size()) {
    set_slots(slots_.empty() ? 64 : slots_.size() * 2);
  }
  uint32_t& slot = slots_[slot_of(token)];
  if (slot == 0) {
    entries_.push_back({.token = token});
    slot = static_cast<uint32_t>(entries_.size());
  }
  return entries_[slot - 1];
}

void TokenHistory::add_prompt(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    find_or_insert(token).is_in_prompt = true;
  }
}

void TokenHistory::push(TokenId token) {
  ++find_or_insert(token).n_output;
}

void TokenHistory::pop(TokenId token) {
  Entry& entry = find_or_insert(token);
  MR_CHECK(entry.n_output > 0, "token {} was not pushed", token);
  --entry.n_output;
}

}  // namespace millrace

#include "text/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace millrace {
namespace {

std::vector<std::string> texts_of(const std::vector<AddedToken>& tokens) {
  std::vector<std::string> texts;
  for (const AddedToken& token : tokens) {
    texts.push_back(token.text);
  }
  return texts;
}

// The last character that ends at `at`; at > 0, valid UTF-8.
std::size_t character_before(std::string_view text, std::size_t at) {
  do {
    --at;
  } while (at > 0 && (text[at] & 0xC0) == 0x80);
  return at;
}

char32_t code_point_at(std::string_view text, std::size_t at) {
  return decode_utf8(text.substr(at)).code_point;
}

bool is_word_character(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  return u_hasBinaryProperty(code, UCHAR_ALPHABETIC) || u_isdigit(code) || c == '_' ||
         (U_GET_GC_MASK(code) & (U_GC_M_MASK | U_GC_PC_MASK)) != 0;
}

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  const bool joins_left =
      begin > 0 && is_word_character(code_point_at(text, character_before(text, begin)));
  return !joins_left && (end == text.size() || !is_word_character(code_point_at(text, end)));
}

std::size_t skip_space_left(std::string_view text, std::size_t from, std::size_t at) {
  while (at > from) {
    const std::size_t before = character_before(text, at);
    if (!u_isUWhiteSpace(static_cast<UChar32>(code_point_at(text, before)))) {
      break;
    }
    at = before;
  }
  return at;
}

std::size_t skip_space_right(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Utf8Step step = decode_utf8(text.substr(at));
    if (!u_isUWhiteSpace(static_cast<UChar32>(step.code_point))) {
      break;
    }
    at += static_cast<std::size_t>(step.n_bytes);
  }
  return at;
}

}  // namespace

void InputRanges::add(std::size_t begin, std::size_t end) {
  if (begin == end) {
    return;
  }
  if (!ranges_.empty() && ranges_.back().end == begin) {
    ranges_.back().end = end;
  } else {
    ranges_.push_back({begin, end});
  }
}

const InputRanges::Range* InputRanges::first_ending_after(std::size_t at) const {
  const auto range = std::partition_point(
      ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.end <= at; });
  return range == ranges_.end() ? nullptr : &*range;
}

bool InputRanges::overlaps(std::size_t begin, std::size_t end) const {
  const Range* range = first_ending_after(begin);
  return range != nullptr && range->begin < end;
}

bool InputRanges::covers(std::size_t begin, std::size_t end) const {
  const Range* range = first_ending_after(begin);
  return range != nullptr && range->begin <= begin && range->end >= end;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, std::span<const TokenType> types)
    : trie_(texts_of(tokens)) {
  for (AddedToken& token : tokens) {
    const TokenType type = types[token.id];
    const bool is_control = type == TokenType::kControl || type == TokenType::kUnknown;
    entries_.push_back({std::move(token), is_control});
  }
}

bool AddedTokens::cuts_control(std::string_view text,
                               std::size_t begin,
                               std::size_t end,
                               const InputRanges& input) const {
  bool found = false;
  for (std::size_t at = begin + 1; at < end && !found; ++at) {
    trie_.match_at(text, at, [&](int32_t value, std::size_t match_end) {
      found = found || (entries_[value].is_control && !input.overlaps(at, match_end));
    });
  }
  return found;
}

bool AddedTokens::is_allowed(const Entry& entry,
                             std::string_view text,
                             std::size_t begin,
                             std::size_t end,
                             const InputRanges& input) const {
  if (!input.overlaps(begin, end)) {
    return true;
  }
  return !entry.is_control && (input.covers(begin, end) || !cuts_control(text, begin, end, input));
}

AddedTokens::Match AddedTokens::find(std::string_view text,
                                     std::size_t from,
                                     const InputRanges& input) const {
  std::size_t at = trie_.next_candidate(text, from);
  while (at < text.size()) {
    const Entry* best = nullptr;
    std::size_t end = at;
    trie_.match_at(text, at, [&](int32_t value, std::size_t match_end) {
      if (is_allowed(entries_[value], text, at, match_end, input)) {
        best = &entries_[value];
        end = match_end;
      }
    });
    if (best == nullptr) {
      at = trie_.next_candidate(text, at + 1);
      continue;
    }
    if (best->token.is_single_word && !is_single_word(text, at, end)) {
      at = trie_.next_candidate(text, end);
      continue;
    }
    const std::size_t begin = best->token.strips_left ? skip_space_left(text, from, at) : at;
    return {begin, best->token.strips_right ? skip_space_right(text, end) : end, best->token.id};
  }
  return {text.size(), text.size(), kNoToken};
}

}  // namespace millrace

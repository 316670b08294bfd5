#include "text/bpe.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "base/utf8.h"

namespace millrace {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// Words up to here are merged in an array, longer ones with a heap.
constexpr std::size_t kShortWord = 48;
// Positions inside a piece are 32 bits wide.
constexpr std::size_t kLongestPiece = std::size_t{1} << 28;
// The pairs of a scored token take time square in its length.
constexpr std::size_t kLongestScoredToken = 4096;
constexpr std::size_t kMostScoredBytes = 16 << 20;  // eight times Gemma's

constexpr uint32_t kByteWeight = 1 << 20;

constexpr TokenId kMergedAway = std::numeric_limits<TokenId>::min();

// A character without a symbol is known by its place, so that it can be spelled in bytes later.
TokenId unknown_at(std::size_t offset) {
  return -2 - static_cast<TokenId>(offset);
}
std::size_t offset_of(TokenId unknown) {
  return static_cast<std::size_t>(-2 - unknown);
}

bool is_mergeable(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUserDefined ||
         type == TokenType::kUnused;
}

std::string_view first_character(std::string_view text) {
  return text.substr(0, static_cast<std::size_t>(decode_utf8(text).n_bytes));
}

// Where the next word starts: at the first space mark that follows another character.
std::size_t word_end(std::string_view piece) {
  std::size_t at = piece.starts_with(kSpaceMark) ? kSpaceMark.size() : 1;
  while (true) {
    at = piece.find(kSpaceMark, at);
    if (at == std::string_view::npos) {
      return piece.size();
    }
    const bool is_run = at >= kSpaceMark.size() &&
                        piece.substr(at - kSpaceMark.size(), kSpaceMark.size()) == kSpaceMark;
    if (!is_run) {
      return at;
    }
    at += kSpaceMark.size();
  }
}

}  // namespace

Bpe::Bpe(const TokenizerSpec& spec, const TokenIndex& index)
    : index_(&index),
      types_(spec.types),
      unknown_(spec.unknown),
      is_byte_level_(spec.kind == TokenizerSpec::Kind::kByteLevelBpe),
      ignores_merges_(spec.ignores_merges),
      fuses_unknown_(spec.fuses_unknown) {
  byte_ids_.fill(kNoToken);
}

Result<Bpe> Bpe::create(const TokenizerSpec& spec,
                        const TokenStrings& strings,
                        const TokenIndex& index) {
  Bpe bpe(spec, index);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = bpe.is_byte_level_ ? std::string(1, static_cast<char>(byte))
                                                : fmt::format("<0x{:02X}>", byte);
    const TokenId id = index.find(text);
    const TokenType wanted = bpe.is_byte_level_ ? TokenType::kNormal : TokenType::kByte;
    if (id != kNoToken && spec.types[id] == wanted) {
      bpe.byte_ids_[byte] = id;
    }
  }
  bpe.weigh_bytes(strings);
  const bool is_scored = spec.merges.empty() && !bpe.is_byte_level_;
  const Result<void> done = is_scored ? bpe.add_scored_pairs(spec, strings) : bpe.add_merges(spec);
  if (!done) {
    return propagate(done);
  }
  return bpe;
}

// Characters without a token may vanish or be joined into one unknown token: then nothing is known.
void Bpe::weigh_bytes(const TokenStrings& strings) {
  if (std::find(byte_ids_.begin(), byte_ids_.end(), kNoToken) != byte_ids_.end()) {
    return;
  }
  std::array<std::size_t, 256> longest;
  longest.fill(1);
  for (TokenId id = 0; id < strings.size(); ++id) {
    if (!is_mergeable(types_[id])) {
      continue;
    }
    for (const char byte : strings[id]) {
      std::size_t& known = longest[static_cast<unsigned char>(byte)];
      known = std::max(known, strings[id].size());
    }
  }
  std::transform(longest.begin(), longest.end(), byte_weights_.begin(), [](std::size_t n) {
    return static_cast<uint32_t>(kByteWeight / n);  // rounded down: still a lower bound
  });
}

std::size_t Bpe::min_ids(std::string_view text) const {
  uint64_t weight = 0;
  for (const char byte : text) {
    weight += byte_weights_[static_cast<unsigned char>(byte)];
  }
  return static_cast<std::size_t>((weight + kByteWeight - 1) / kByteWeight);
}

TokenId Bpe::find_symbol(std::string_view text) const {
  const TokenId id = index_->find(text);
  if (id != kNoToken) {
    return is_mergeable(types_[id]) ? id : kNoToken;
  }
  if (!extra_symbols_.empty()) {
    const auto extra = extra_symbols_.find(text);
    if (extra != extra_symbols_.end()) {
      return extra->second;
    }
  }
  return kNoToken;
}

TokenId Bpe::find_or_add_symbol(std::string_view text) {
  const TokenId known = find_symbol(text);
  if (known != kNoToken || text.empty() || first_character(text) != text) {
    return known;
  }
  const auto id = static_cast<TokenId>(types_.size() + extra_texts_.size());
  extra_symbols_.emplace(text, id);
  extra_texts_.emplace_back(text);
  return id;
}

Result<void> Bpe::add_merges(const TokenizerSpec& spec) {
  std::string joined;
  rules_ = MergeTable(spec.merges.size());
  cuts_at_spaces_ = !is_byte_level_;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const Merge& merge = spec.merges[rank];
    joined.assign(merge.left).append(merge.right);
    const TokenId left = index_->find(merge.left);
    const TokenId right = index_->find(merge.right);
    const TokenId merged = index_->find(joined);
    if (left == kNoToken || right == kNoToken || merged == kNoToken) {
      return fail(ErrorCode::kCorrupt,
                  "[tokenizer] merge {} is \"{}\" + \"{}\", which is not made of tokens",
                  rank,
                  replace_invalid_utf8(merge.left),
                  replace_invalid_utf8(merge.right));
    }
    // A control token never comes out of text, whatever the merges say.
    if (is_mergeable(types_[left]) && is_mergeable(types_[right]) && is_mergeable(types_[merged])) {
      rules_.add(left, right, {static_cast<uint32_t>(rank), merged});
      cuts_at_spaces_ = cuts_at_spaces_ && word_end(joined) == joined.size();
    }
  }
  return {};
}

// As SentencePiece and llama.cpp do: two neighbours merge when their text together is a token, and
// the token with the highest score goes first. Equal scores share a rank, so the leftmost goes.
Result<void> Bpe::add_scored_pairs(const TokenizerSpec& spec, const TokenStrings& strings) {
  std::vector<TokenId> order;
  std::size_t n_bytes = 0;
  for (TokenId id = 0; id < strings.size(); ++id) {
    n_bytes += strings[id].size();
    if (strings[id].size() > kLongestScoredToken || n_bytes > kMostScoredBytes) {
      return fail(
          ErrorCode::kUnsupported,
          "[tokenizer] token {} has {} bytes, all up to it {}; at most {} and {} are supported",
          id,
          strings[id].size(),
          n_bytes,
          kLongestScoredToken,
          kMostScoredBytes);
    }
    if (is_mergeable(types_[id]) && !strings[id].empty() && is_valid_utf8(strings[id])) {
      order.push_back(id);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return spec.scores[a] > spec.scores[b];
  });
  struct Pair {
    TokenId left;
    TokenId right;
    MergeRule rule;
  };
  std::vector<Pair> pairs;
  cuts_at_spaces_ = true;
  uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string_view text = strings[order[i]];
    rank += i > 0 && spec.scores[order[i]] != spec.scores[order[i - 1]];
    cuts_at_spaces_ = cuts_at_spaces_ && word_end(text) == text.size();
    for (std::size_t cut = first_character(text).size(); cut < text.size();
         cut += first_character(text.substr(cut)).size()) {
      const TokenId left = find_or_add_symbol(text.substr(0, cut));
      const TokenId right = find_or_add_symbol(text.substr(cut));
      if (left != kNoToken && right != kNoToken) {
        pairs.push_back({left, right, {rank, order[i]}});
      }
    }
  }
  rules_ = MergeTable(pairs.size());
  for (const Pair& pair : pairs) {
    rules_.add(pair.left, pair.right, pair.rule);
  }
  return {};
}

void Bpe::encode(std::string_view piece,
                 BpeScratch& scratch,
                 std::vector<TokenId>& ids,
                 std::size_t max_ids) const {
  while (!piece.empty() && ids.size() <= max_ids) {
    std::size_t n = cuts_at_spaces_ ? word_end(piece) : piece.size();
    if (n > kLongestPiece) {
      n = kLongestPiece - incomplete_utf8_tail(piece.substr(0, kLongestPiece));
    }
    const std::string_view word = piece.substr(0, n);
    piece.remove_prefix(n);
    if (word.size() > WordCache::kMaxBytes) {
      encode_word(word, scratch, ids);
      continue;
    }
    const uint64_t hash = hash_bytes(word);
    const std::span<const TokenId> known = scratch.cache.find(word, hash);
    if (!known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      continue;
    }
    const std::size_t n_before = ids.size();
    encode_word(word, scratch, ids);
    scratch.cache.keep(word, hash, std::span<const TokenId>(ids).subspan(n_before));
  }
}

void Bpe::encode_word(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& ids) const {
  if (ignores_merges_) {
    const TokenId whole = find_symbol(word);
    if (whole != kNoToken) {
      ids.push_back(whole);
      return;
    }
  }
  read_symbols(word, scratch.symbols);
  if (scratch.symbols.size() <= kShortWord) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  write_symbols(word, scratch.symbols, ids);
}

void Bpe::read_symbols(std::string_view word, std::vector<TokenId>& symbols) const {
  symbols.clear();
  std::size_t at = 0;
  while (at < word.size()) {
    TokenId symbol = kNoToken;
    std::size_t n = 1;
    if (is_byte_level_) {
      symbol = byte_ids_[static_cast<unsigned char>(word[at])];
    } else {
      const std::string_view character = first_character(word.substr(at));
      symbol = find_symbol(character);
      n = character.size();
    }
    symbols.push_back(symbol == kNoToken ? unknown_at(at) : symbol);
    at += n;
  }
}

void Bpe::merge_short(BpeScratch& scratch) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  std::vector<uint32_t>& ranks = scratch.ranks;  // of symbol i with symbol i + 1
  std::vector<TokenId>& merged = scratch.merged;
  std::size_t n = symbols.size();
  ranks.resize(n);
  merged.resize(n);
  const auto look_up = [&](std::size_t i) {
    const MergeRule rule = rules_.find(symbols[i], symbols[i + 1]);
    ranks[i] = rule.rank;
    merged[i] = rule.merged;
  };
  for (std::size_t i = 0; i + 1 < n; ++i) {
    look_up(i);
  }
  while (n > 1) {
    const auto lowest = std::min_element(ranks.begin(), ranks.begin() + static_cast<long>(n - 1));
    if (*lowest == MergeRule::kNoRank) {
      break;
    }
    const auto at = static_cast<std::size_t>(lowest - ranks.begin());
    symbols[at] = merged[at];
    --n;
    std::copy(&symbols[at + 1] + 1, symbols.data() + n + 1, &symbols[at + 1]);
    std::copy(ranks.data() + at + 1, ranks.data() + n, ranks.data() + at);
    std::copy(merged.data() + at + 1, merged.data() + n, merged.data() + at);
    if (at + 1 < n) {
      look_up(at);
    }
    if (at > 0) {
      look_up(at - 1);
    }
  }
  symbols.resize(n);
}

// n log n: a heap of (rank, place) over a linked list. Entries that a later merge made stale are
// known by their pair no longer having that rank.
void Bpe::merge_long(BpeScratch& scratch) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  std::vector<int32_t>& previous = scratch.previous;
  std::vector<int32_t>& next = scratch.next;
  std::vector<uint64_t>& heap = scratch.heap;
  const auto n = static_cast<int32_t>(symbols.size());
  previous.resize(n);
  next.resize(n);
  heap.clear();
  const auto push = [&](int32_t left, int32_t right) {
    const uint32_t rank = rules_.find(symbols[left], symbols[right]).rank;
    if (rank == MergeRule::kNoRank) {
      return false;
    }
    heap.push_back(static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(left));
    return true;
  };
  for (int32_t i = 0; i < n; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
    if (i + 1 < n) {
      push(i, i + 1);
    }
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    const auto left = static_cast<int32_t>(heap.back() & UINT32_MAX);
    heap.pop_back();
    if (symbols[left] == kMergedAway || next[left] == n) {
      continue;
    }
    const int32_t right = next[left];
    const MergeRule rule = rules_.find(symbols[left], symbols[right]);
    if (rule.rank != rank) {
      continue;
    }
    symbols[left] = rule.merged;
    symbols[right] = kMergedAway;
    next[left] = next[right];
    if (next[left] != n) {
      previous[next[left]] = left;
      if (push(left, next[left])) {
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
      }
    }
    if (previous[left] >= 0 && push(previous[left], left)) {
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }
  std::erase(symbols, kMergedAway);
}

void Bpe::write_symbols(std::string_view word,
                        const std::vector<TokenId>& symbols,
                        std::vector<TokenId>& ids) const {
  const auto n_tokens = static_cast<TokenId>(types_.size());
  bool was_unknown = false;
  for (const TokenId symbol : symbols) {
    if (symbol >= 0 && symbol < n_tokens) {
      ids.push_back(symbol);
      was_unknown = false;
      continue;
    }
    std::string_view character;
    if (symbol >= n_tokens) {
      character = extra_texts_[symbol - n_tokens];
    } else {
      const std::string_view rest = word.substr(offset_of(symbol));
      character = is_byte_level_ ? rest.substr(0, 1) : first_character(rest);
    }
    const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    if (std::all_of(character.begin(), character.end(), [&](char byte) {
          return id_of(byte) != kNoToken;
        })) {
      std::transform(character.begin(), character.end(), std::back_inserter(ids), id_of);
      was_unknown = false;
    } else if (unknown_ != kNoToken) {
      if (!was_unknown || !fuses_unknown_) {
        ids.push_back(unknown_);
      }
      was_unknown = true;
    }
  }
}

}  // namespace millrace

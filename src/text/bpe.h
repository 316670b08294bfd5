#pragma once
// Byte-pair encoding of one piece: characters (or bytes) are merged pair by pair, lowest rank
// first, leftmost among equals (Sennrich et al., 2016). Immutable, any thread; a BpeScratch belongs
// to one thread at a time.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/merge_table.h"
#include "text/token_index.h"
#include "text/tokenizer_spec.h"
#include "text/word_cache.h"

namespace millrace {

struct BpeScratch {
  WordCache cache;
  std::vector<TokenId> symbols;
  std::vector<uint32_t> ranks;
  std::vector<TokenId> merged;
  std::vector<int32_t> previous;
  std::vector<int32_t> next;
  std::vector<uint64_t> heap;
};

class Bpe {
 public:
  // `strings` holds what is merged: the bytes of byte-level tokens, the spelling of SentencePiece
  // ones; `index` is its index. Both must outlive the Bpe.
  static Result<Bpe> create(const TokenizerSpec& spec,
                            const TokenStrings& strings,
                            const TokenIndex& index);

  // Appends the ids of a piece, valid UTF-8. Never a control token. Stops behind the word with
  // which ids has more than max_ids.
  void encode(std::string_view piece,
              BpeScratch& scratch,
              std::vector<TokenId>& ids,
              std::size_t max_ids = SIZE_MAX) const;

  // At least so many ids come from a text. Each byte counts 1 / (length of the longest token that
  // it occurs in), so the bytes of a token, which are each in one at least as long, count 1 at
  // most.
  std::size_t min_ids(std::string_view text) const;

 private:
  Bpe(const TokenizerSpec& spec, const TokenIndex& index);

  Result<void> add_merges(const TokenizerSpec& spec);
  Result<void> add_scored_pairs(const TokenizerSpec& spec, const TokenStrings& strings);
  void weigh_bytes(const TokenStrings& strings);
  TokenId find_symbol(std::string_view text) const;
  TokenId find_or_add_symbol(std::string_view text);

  void encode_word(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& ids) const;
  void read_symbols(std::string_view word, std::vector<TokenId>& symbols) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;
  void write_symbols(std::string_view word,
                     const std::vector<TokenId>& symbols,
                     std::vector<TokenId>& ids) const;

  const TokenIndex* index_;
  std::vector<TokenType> types_;
  MergeTable rules_{0};
  std::array<TokenId, 256> byte_ids_;  // byte-level: the token of a byte; else its fallback token
  std::array<uint32_t, 256> byte_weights_{};  // in 1 / kByteWeight tokens; 0: not all have a token
  // Characters that tokens contain but that are no tokens themselves: symbol n_vocab + i.
  std::map<std::string, TokenId, std::less<>> extra_symbols_;
  std::vector<std::string> extra_texts_;
  TokenId unknown_;
  bool is_byte_level_;
  bool ignores_merges_;
  bool fuses_unknown_;
  bool cuts_at_spaces_ = false;  // no merge joins a character with a U+2581 after it
};

}  // namespace millrace

#pragma once
// Text to token ids and back. Immutable after create; any thread may call any member at any time.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/text_piece.h"
#include "text/tokenizer_spec.h"

namespace millrace {

class Tokenizer {
 public:
  static Result<Tokenizer> create(TokenizerSpec spec);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // add_special: put BOS (EOS) around the text where the model wants it.
  // parse_special: control tokens spelled in the text become those tokens; only for trusted text.
  // Invalid UTF-8 is read as U+FFFD. User-defined tokens are always found.
  std::vector<TokenId> encode(std::string_view text, bool add_special, bool parse_special) const;

  // The pieces are joined and read as one text, with one exception: a control token is found only
  // where every byte of its spelling lies in pieces that are not input. So the ids equal those of
  // encode(joined, add_special, true) whenever no control token is spelled with a byte of input,
  // and input can neither make a control token nor swallow part of one.
  std::vector<TokenId> encode(std::span<const TextPiece> pieces, bool add_special) const;

  // The same for texts that may be far too long: as soon as there are known to be more than
  // max_tokens, kContextLength says how many there are at least, and little has been encoded.
  Result<std::vector<TokenId>> encode_within(std::size_t max_tokens,
                                             std::string_view text,
                                             bool add_special,
                                             bool parse_special) const;
  Result<std::vector<TokenId>> encode_within(std::size_t max_tokens,
                                             std::span<const TextPiece> pieces,
                                             bool add_special) const;

  // Valid UTF-8: each maximal broken sequence of bytes becomes one U+FFFD. Control tokens and ids
  // outside the vocabulary are empty unless show_control asks for the spelling of the former.
  std::string decode(std::span<const TokenId> ids, bool show_control = false) const;

  // The bytes a token stands for; empty for control tokens and for unknown ids.
  std::string_view token_bytes(TokenId id) const;
  // The spelling in the vocabulary file ("<|im_end|>", "Ġthe"); empty for unknown ids.
  std::string_view token_text(TokenId id) const;
  // The token spelled so in the vocabulary file, or kNoToken.
  TokenId find_token(std::string_view text) const;

  int32_t vocab_size() const;  // ids are 0 .. vocab_size - 1
  bool is_control(TokenId id) const;
  bool is_end_of_generation(TokenId id) const;
  std::span<const TokenId> end_of_generation() const;
  TokenId bos() const;
  TokenId eos() const;
  TokenId padding() const;
  TokenId unknown() const;
  bool adds_bos() const;              // encode with add_special puts BOS first
  bool strips_leading_space() const;  // decoding drops one space at the start of a sequence

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace millrace

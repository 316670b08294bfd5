#include "text/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/scratch_pool.h"
#include "text/token_index.h"

namespace millrace {
namespace {

// More than any vocabulary has; a bound for what a damaged file can make us allocate.
constexpr std::size_t kMaxTokens = std::size_t{1} << 23;

bool is_control_type(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

// "<0x0A>" is 10.
std::optional<char> byte_of_fallback(std::string_view text) {
  const auto hex = [](char c) -> int {
    if (c >= '0' && c <= '9') {
      return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>' || hex(text[3]) < 0 ||
      hex(text[4]) < 0) {
    return std::nullopt;
  }
  return static_cast<char>(hex(text[3]) * 16 + hex(text[4]));
}

std::string replace_space_marks(std::string_view text) {
  constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
  std::string out;
  while (true) {
    const std::size_t at = text.find(kSpaceMark);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) {
      return out;
    }
    out.push_back(' ');
    text.remove_prefix(at + kSpaceMark.size());
  }
}

// What a token stands for in text; control and unused tokens are spelled out here as well.
std::string bytes_of_token(const TokenizerSpec& spec, std::size_t id, bool is_added) {
  const std::string& text = spec.tokens[id];
  const TokenType type = spec.types[id];
  if (is_added && spec.kind == TokenizerSpec::Kind::kByteLevelBpe) {
    return text;
  }
  if (spec.kind == TokenizerSpec::Kind::kByteLevelBpe) {
    return type == TokenType::kNormal ? bytes_of_spelling(text).value_or(text) : text;
  }
  if (type == TokenType::kByte) {
    if (const std::optional<char> byte = byte_of_fallback(text)) {
      return std::string(1, *byte);
    }
  }
  return replace_space_marks(text);
}

Result<void> check_spec(const TokenizerSpec& spec) {
  const std::size_t n = spec.tokens.size();
  if (n == 0 || n > kMaxTokens) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {} tokens", n);
  }
  if (spec.types.size() != n) {
    return fail(
        ErrorCode::kCorrupt, "[tokenizer] {} token types for {} tokens", spec.types.size(), n);
  }
  const bool is_scored = spec.kind == TokenizerSpec::Kind::kSentencePieceBpe && spec.merges.empty();
  if (is_scored && spec.scores.size() != n) {
    return fail(ErrorCode::kCorrupt,
                "[tokenizer] neither merges nor a score for every token: {} scores, {} tokens",
                spec.scores.size(),
                n);
  }
  if (std::any_of(spec.scores.begin(), spec.scores.end(), [](float s) { return std::isnan(s); })) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] a score is not a number");
  }
  if (spec.merges.size() > kMaxTokens) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {} merges", spec.merges.size());
  }
  const auto is_token = [&](TokenId id) { return id >= 0 && static_cast<std::size_t>(id) < n; };
  const auto refuse = [&](const char* what, TokenId id) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {} is id {} of {} tokens", what, id, n);
  };
  for (const TokenId id : {spec.bos, spec.eos, spec.unknown, spec.padding}) {
    if (id != kNoToken && !is_token(id)) {
      return refuse("BOS, EOS, the unknown or the padding token", id);
    }
  }
  for (const AddedToken& token : spec.added_tokens) {
    if (!is_token(token.id)) {
      return refuse("an added token", token.id);
    }
  }
  for (const auto* list : {&spec.prefix, &spec.suffix, &spec.end_of_generation}) {
    for (const TokenId id : *list) {
      if (!is_token(id)) {
        return refuse("a token around the text or at its end", id);
      }
    }
  }
  return {};
}

// Merges of byte-level vocabularies are spelled like the tokens; merging works on bytes.
void spell_merges_in_bytes(std::vector<Merge>& merges) {
  for (Merge& merge : merges) {
    merge.left = bytes_of_spelling(merge.left).value_or(merge.left);
    merge.right = bytes_of_spelling(merge.right).value_or(merge.right);
  }
}

// A text that leaves so much behind in the scratch has it thrown away.
constexpr std::size_t kKeptScratchBytes = std::size_t{1} << 20;

struct Scratch {
  RegexScratch regex;
  PieceList pieces;
  BpeScratch bpe;
  std::string normalized;
};

}  // namespace

struct Tokenizer::Parts {
  TokenizerSpec::Kind kind = TokenizerSpec::Kind::kByteLevelBpe;
  TokenStrings texts;
  TokenStrings bytes;
  std::vector<TokenType> types;
  std::vector<TokenId> prefix, suffix, end_of_generation;
  TokenId bos, eos, unknown, padding;
  bool strips_leading_space;
  std::optional<TokenIndex> index;       // of bytes, or of texts for SentencePiece
  std::optional<AddedTokens> raw_added;  // searched for in the text as it came
  std::optional<AddedTokens> normalized_added;
  std::optional<Normalizer> normalizer;
  std::optional<PreTokenizer> pre_tokenizer;
  std::optional<Bpe> bpe;
  mutable ScratchPool<Scratch> pool;

  Result<void> fill(TokenizerSpec spec);
  void fill_added(std::vector<AddedToken> added);
  // The ids so far; they are all there are unless they are too many.
  struct Output {
    std::size_t max_tokens;
    std::vector<TokenId> ids = {};
    std::size_t n_at_least = 0;  // known before they are made

    bool is_too_long() const { return std::max(ids.size(), n_at_least) > max_tokens; }
  };

  Result<std::vector<TokenId>> encode(std::size_t max_tokens,
                                      std::string_view text,
                                      const InputRanges& input,
                                      bool add_special) const;
  void encode_section(std::string_view section, bool is_first, Scratch& scratch, Output& out) const;
  void encode_pieces(std::string_view text, bool is_first, Scratch& scratch, Output& out) const;
};

Result<void> Tokenizer::Parts::fill(TokenizerSpec spec) {
  const Result<void> checked = check_spec(spec);
  if (!checked) {
    return checked;
  }
  kind = spec.kind;
  types = spec.types;
  prefix = spec.prefix;
  suffix = spec.suffix;
  end_of_generation = spec.end_of_generation;
  std::sort(end_of_generation.begin(), end_of_generation.end());
  bos = spec.bos;
  eos = spec.eos;
  unknown = spec.unknown;
  padding = spec.padding;
  strips_leading_space = spec.strips_leading_space;

  std::vector<bool> is_added(spec.tokens.size());
  for (const AddedToken& token : spec.added_tokens) {
    is_added[token.id] = true;
  }
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    texts.append(spec.tokens[id]);
    bytes.append(bytes_of_token(spec, id, is_added[id]));
  }
  const bool is_byte_level = kind == TokenizerSpec::Kind::kByteLevelBpe;
  if (is_byte_level) {
    spell_merges_in_bytes(spec.merges);
  }
  const TokenStrings& merged_strings = is_byte_level ? bytes : texts;
  index.emplace(merged_strings);
  Result<Bpe> new_bpe = Bpe::create(spec, merged_strings, *index);
  if (!new_bpe) {
    return propagate(new_bpe);
  }
  bpe.emplace(std::move(*new_bpe));
  Result<Normalizer> new_normalizer = Normalizer::create(std::move(spec.normalizers));
  if (!new_normalizer) {
    return propagate(new_normalizer);
  }
  normalizer.emplace(std::move(*new_normalizer));
  Result<PreTokenizer> new_pre_tokenizer = PreTokenizer::create(spec.pre_tokenizers);
  if (!new_pre_tokenizer) {
    return propagate(new_pre_tokenizer);
  }
  pre_tokenizer.emplace(std::move(*new_pre_tokenizer));
  fill_added(std::move(spec.added_tokens));
  return {};
}

void Tokenizer::Parts::fill_added(std::vector<AddedToken> added) {
  std::vector<AddedToken> raw, normalized;
  std::string buffer;
  for (AddedToken& token : added) {
    // A spelling that is not text can only match inside a character, and would break it.
    if (!is_valid_utf8(token.text)) {
      continue;
    }
    // Control tokens are never looked for in normalized text: nothing that normalization makes of
    // a text may become one.
    if (token.is_normalized && !is_control_type(types[token.id]) && !token.text.empty()) {
      token.text = std::string(normalizer->apply(token.text, buffer));
      normalized.push_back(std::move(token));
    } else {
      raw.push_back(std::move(token));
    }
  }
  raw_added.emplace(std::move(raw), types);
  normalized_added.emplace(std::move(normalized), types);
}

Result<std::vector<TokenId>> Tokenizer::Parts::encode(std::size_t max_tokens,
                                                      std::string_view text,
                                                      const InputRanges& input,
                                                      bool add_special) const {
  Output out{max_tokens};
  out.ids.reserve(std::min(text.size() / 3, max_tokens) + 8);
  if (add_special) {
    out.ids.insert(out.ids.end(), prefix.begin(), prefix.end());
  }
  const auto scratch = pool.take();
  std::size_t done = 0;
  while (done < text.size() && !out.is_too_long()) {
    const AddedTokens::Match match = raw_added->find(text, done, input);
    if (match.begin > done) {
      encode_section(text.substr(done, match.begin - done), done == 0, *scratch, out);
    }
    if (match.id != kNoToken) {
      out.ids.push_back(match.id);
    }
    done = match.end;
  }
  if (add_special) {
    out.ids.insert(out.ids.end(), suffix.begin(), suffix.end());
  }
  if (text.size() > kKeptScratchBytes) {
    *scratch = Scratch();
  }
  if (out.is_too_long()) {
    return fail(ErrorCode::kContextLength,
                "at least {} tokens, at most {} are allowed",
                std::max(out.ids.size(), out.n_at_least),
                max_tokens);
  }
  return std::move(out.ids);
}

void Tokenizer::Parts::encode_section(std::string_view section,
                                      bool is_first,
                                      Scratch& scratch,
                                      Output& out) const {
  const std::string_view text = normalizer->apply(section, scratch.normalized);
  if (normalized_added->is_empty()) {
    encode_pieces(text, is_first, scratch, out);
    return;
  }
  const InputRanges none;  // no control tokens here, so input may spell all of these
  std::size_t done = 0;
  while (done < text.size() && !out.is_too_long()) {
    const AddedTokens::Match match = normalized_added->find(text, done, none);
    if (match.begin > done) {
      encode_pieces(text.substr(done, match.begin - done), is_first && done == 0, scratch, out);
    }
    if (match.id != kNoToken) {
      out.ids.push_back(match.id);
    }
    done = match.end;
  }
}

void Tokenizer::Parts::encode_pieces(std::string_view text,
                                     bool is_first,
                                     Scratch& scratch,
                                     Output& out) const {
  // Counting bytes is much quicker than encoding, but not worth it where the text surely fits.
  const bool is_counted = text.size() > out.max_tokens;
  const auto count = [&](std::string_view more) {
    out.n_at_least += bpe->min_ids(more);
    return !out.is_too_long();
  };
  out.n_at_least = out.ids.size();
  if (is_counted && pre_tokenizer->keeps_text() && !count(text)) {
    return;
  }
  if (pre_tokenizer->is_empty()) {
    bpe->encode(text, scratch.bpe, out.ids, out.max_tokens);
    return;
  }
  PieceList& list = scratch.pieces;
  for (std::size_t done = 0; done < text.size();) {
    done = pre_tokenizer->split(text, done, is_first, scratch.regex, list);
    out.n_at_least = out.ids.size();
    if (is_counted && !pre_tokenizer->keeps_text()) {
      for (const PieceList::Piece piece : list.pieces) {
        if (!count(list.text.substr(piece.begin, piece.end - piece.begin))) {
          return;
        }
      }
    }
    for (const PieceList::Piece piece : list.pieces) {
      if (out.is_too_long()) {
        return;
      }
      bpe->encode(list.text.substr(piece.begin, piece.end - piece.begin),
                  scratch.bpe,
                  out.ids,
                  out.max_tokens);
    }
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(TokenizerSpec spec) {
  auto parts = std::make_unique<Parts>();
  const Result<void> filled = parts->fill(std::move(spec));
  if (!filled) {
    return propagate(filled);
  }
  return Tokenizer(std::move(parts));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text,
                                       bool add_special,
                                       bool parse_special) const {
  return *encode_within(SIZE_MAX, text, add_special, parse_special);
}

std::vector<TokenId> Tokenizer::encode(std::span<const TextPiece> pieces, bool add_special) const {
  return *encode_within(SIZE_MAX, pieces, add_special);
}

Result<std::vector<TokenId>> Tokenizer::encode_within(std::size_t max_tokens,
                                                      std::string_view text,
                                                      bool add_special,
                                                      bool parse_special) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  InputRanges input;
  if (!parse_special) {
    input.add(0, text.size());
  }
  return parts_->encode(max_tokens, text, input, add_special);
}

Result<std::vector<TokenId>> Tokenizer::encode_within(std::size_t max_tokens,
                                                      std::span<const TextPiece> pieces,
                                                      bool add_special) const {
  std::string text;
  text.reserve(std::accumulate(
      pieces.begin(), pieces.end(), std::size_t{0}, [](std::size_t n, const TextPiece& piece) {
        return n + piece.text.size();
      }));
  InputRanges input;
  for (const TextPiece& piece : pieces) {
    const std::size_t begin = text.size();
    text += is_valid_utf8(piece.text) ? piece.text : replace_invalid_utf8(piece.text);
    if (piece.is_input) {
      input.add(begin, text.size());
    }
  }
  return parts_->encode(max_tokens, text, input, add_special);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool show_control) const {
  std::string bytes;
  for (const TokenId id : ids) {
    bytes += show_control && is_control(id) ? token_text(id) : token_bytes(id);
  }
  if (parts_->strips_leading_space && bytes.starts_with(' ')) {
    bytes.erase(0, 1);
  }
  return is_valid_utf8(bytes) ? bytes : replace_invalid_utf8(bytes);
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  if (id < 0 || id >= vocab_size() || is_control(id) || parts_->types[id] == TokenType::kUnused) {
    return {};
  }
  return parts_->bytes[id];
}

std::string_view Tokenizer::token_text(TokenId id) const {
  return parts_->texts[id];
}

TokenId Tokenizer::find_token(std::string_view text) const {
  for (TokenId id = 0; id < vocab_size(); ++id) {
    if (parts_->texts[id] == text) {
      return id;
    }
  }
  return kNoToken;
}

int32_t Tokenizer::vocab_size() const {
  return parts_->texts.size();
}

bool Tokenizer::is_control(TokenId id) const {
  return id >= 0 && id < vocab_size() && is_control_type(parts_->types[id]);
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return std::binary_search(parts_->end_of_generation.begin(), parts_->end_of_generation.end(), id);
}

std::span<const TokenId> Tokenizer::end_of_generation() const {
  return parts_->end_of_generation;
}
TokenId Tokenizer::bos() const {
  return parts_->bos;
}
TokenId Tokenizer::eos() const {
  return parts_->eos;
}
TokenId Tokenizer::padding() const {
  return parts_->padding;
}
TokenId Tokenizer::unknown() const {
  return parts_->unknown;
}
bool Tokenizer::adds_bos() const {
  return parts_->bos != kNoToken && !parts_->prefix.empty() && parts_->prefix[0] == parts_->bos;
}
bool Tokenizer::strips_leading_space() const {
  return parts_->strips_leading_space;
}

}  // namespace millrace

#pragma once
// Everything a Tokenizer is made from, as plain data. Filled from GGUF metadata (here) or from a
// Hugging Face folder (tokenizer_json.h). Any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace millrace {

// The numbers are those of GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never made from a user's text, decodes to nothing
  kUserDefined = 4,  // matched in any text before merging, decodes to its spelling
  kUnused = 5,
  kByte = 6,  // "<0x0A>": byte fallback of SentencePiece vocabularies
};

// A token that is searched for in the text as a whole string, before anything is split.
struct AddedToken {
  TokenId id = kNoToken;
  std::string text;
  bool is_normalized = false;   // searched for in the normalized text; control tokens never are
  bool strips_left = false;     // takes white space before it along
  bool strips_right = false;    // takes white space after it along
  bool is_single_word = false;  // only where neither neighbour is a word character
};

struct NormalizerStep {
  enum class Kind { kNfc, kNfkc, kPrepend, kReplace };
  Kind kind = Kind::kNfc;
  std::string pattern;  // kReplace: literal text
  std::string content;  // kPrepend, kReplace
};

// What becomes of a match of a split pattern.
enum class SplitBehavior {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,  // as isolated, but matches that touch are one piece
};

struct PreTokenizerStep {
  enum class Kind {
    kSplit,
    kPrefixSpace,  // a space before every piece that does not start with one
    kMetaspace,    // spaces become `replacement`, and one is put in front as `prepend` says
  };
  enum class Prepend { kAlways, kFirst, kNever };
  Kind kind = Kind::kSplit;
  std::string pattern;  // kSplit: a regular expression in Oniguruma's or PCRE2's common syntax
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool is_inverted = false;            // kSplit: the pattern describes the pieces, not the gaps
  std::string replacement;             // kMetaspace
  Prepend prepend = Prepend::kAlways;  // kMetaspace
};

struct Merge {
  std::string left;
  std::string right;
};

struct TokenizerSpec {
  enum class Kind {
    kByteLevelBpe,      // tokens are spelled in GPT-2's printable byte alphabet
    kSentencePieceBpe,  // tokens are spelled in text with U+2581 for a space
  };
  Kind kind = Kind::kByteLevelBpe;
  std::vector<std::string> tokens;  // by id; "" is an id without a token
  std::vector<TokenType> types;     // one for each token
  std::vector<Merge> merges;        // best first
  std::vector<float> scores;        // kSentencePieceBpe without merges: best is highest
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  bool ignores_merges = false;        // a piece that is a token as a whole is not merged
  bool fuses_unknown = false;         // neighbouring unknown characters become one unknown token
  bool strips_leading_space = false;  // decoding drops one space at the start of a sequence
  std::vector<TokenId> prefix;        // put before a text when specials are asked for: BOS
  std::vector<TokenId> suffix;        // put after it: EOS
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unknown = kNoToken;
  TokenId padding = kNoToken;
  std::vector<TokenId> end_of_generation;  // every id that ends an answer, ascending
};

// The tokenizer.ggml.* keys of a GGUF file; absent keys stay at the defaults.
struct GgufTokenizerFields {
  std::string model;                     // "gpt2" or "llama"
  std::string pre;                       // "llama-bpe", "qwen2", ...; only read for "gpt2"
  std::vector<std::string_view> tokens;  // views are copied, not kept
  std::vector<int32_t> token_types;      // empty: all normal
  std::vector<float> scores;
  std::vector<std::string_view> merges;  // "left right"
  std::optional<int64_t> bos, eos, eot, eom, unknown, padding;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// kUnsupported names an unknown model or pre-tokenizer; kCorrupt names the key that is wrong.
Result<TokenizerSpec> tokenizer_spec_from_gguf_fields(const GgufTokenizerFields& fields);

// The end-of-generation rule: the ids the file declares (negative ones are skipped), and every
// control or user-defined token whose spelling is a known end of turn.
std::vector<TokenId> find_end_of_generation(std::span<const std::string> tokens,
                                            std::span<const TokenType> types,
                                            std::span<const TokenId> declared);

}  // namespace millrace

#pragma once
// Cuts a normalized text into the pieces that are merged one by one. Immutable; a PieceList belongs
// to one thread at a time.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/split_regex.h"
#include "text/tokenizer_spec.h"

namespace millrace {

// Pieces of `text`, in order; what lies between them is dropped. `buffer` holds the text when a
// step had to change it.
struct PieceList {
  struct Piece {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::string_view text;
  std::vector<Piece> pieces;

  std::string buffer;
  std::string next_buffer;
  std::vector<Piece> next_pieces;
};

class PreTokenizer {
 public:
  static Result<PreTokenizer> create(const std::vector<PreTokenizerStep>& steps);

  // Fills `list` from `text`, valid UTF-8, which must outlive its use. is_first: the text is the
  // start of the whole text (Metaspace asks).
  void split(std::string_view text, bool is_first, RegexScratch& scratch, PieceList& list) const;

  bool is_empty() const { return steps_.empty(); }

 private:
  struct Step {
    PreTokenizerStep spec;
    std::vector<SplitRegex> pattern;  // one for kSplit, else none
  };

  std::vector<Step> steps_;
};

}  // namespace millrace

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

  // Fills `list` with the pieces of `text`, valid UTF-8, which must outlive its use. is_first: the
  // text is the start of the whole text (Metaspace asks). Of a long text perhaps with a part of
  // them, from `begin` on: gives where the next part begins, text.size() when there is none.
  std::size_t split(std::string_view text,
                    std::size_t begin,
                    bool is_first,
                    RegexScratch& scratch,
                    PieceList& list) const;

  bool is_empty() const { return steps_.empty(); }
  // Every byte of a text is in a piece, as it is.
  bool keeps_text() const;

 private:
  struct Step {
    PreTokenizerStep spec;
    std::vector<SplitRegex> pattern;  // one for kSplit, else none
  };

  std::vector<Step> steps_;
  bool goes_in_parts_ = false;  // nothing after the first cut looks back
};

}  // namespace millrace

#include "text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace millrace {
namespace {

using Piece = PieceList::Piece;

struct Segment {
  Piece piece;
  bool is_match;
};

constexpr std::size_t kPartPieces = 8192;

// Calls take(piece, is_match) for the matches of a pattern in a piece and for what lies between,
// from `start` on and for about max_segments of them. Gives where it stopped. Offsets: in the
// piece.
template <class Take>
std::size_t for_each_segment(const SplitRegex& pattern,
                             std::string_view text,
                             Piece piece,
                             RegexScratch& scratch,
                             const Take& take,
                             std::size_t start = 0,
                             std::size_t max_segments = SIZE_MAX) {
  // The pattern sees the piece alone: lookaround ends at its borders.
  const std::string_view subject = text.substr(piece.begin, piece.end - piece.begin);
  std::size_t done = start;
  while (start <= subject.size()) {
    if (max_segments == 0 && start == done) {
      return done;
    }
    max_segments -= max_segments > 0;
    const SplitRegex::Match match = pattern.find(subject, start, scratch);
    if (match.begin == std::string_view::npos) {
      break;
    }
    if (match.begin > done) {
      take(Piece{piece.begin + done, piece.begin + match.begin}, false);
    }
    if (match.end > match.begin) {
      take(Piece{piece.begin + match.begin, piece.begin + match.end}, true);
      start = match.end;
    } else if (match.end < subject.size()) {  // an empty match cuts, and the search goes on
      start = match.end + static_cast<std::size_t>(decode_utf8(subject.substr(match.end)).n_bytes);
    } else {
      start = subject.size() + 1;
    }
    done = match.end;
  }
  if (done < subject.size()) {
    take(Piece{piece.begin + done, piece.end}, false);
  }
  return subject.size();
}

// The rules are those of the reference library's SplitDelimiterBehavior.
void join_segments(const std::vector<Segment>& segments,
                   SplitBehavior behavior,
                   std::vector<Piece>& out) {
  const std::size_t n_before = out.size();
  bool last_was_match = false;
  switch (behavior) {
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      for (const Segment& segment : segments) {
        if (behavior == SplitBehavior::kIsolated || !segment.is_match) {
          out.push_back(segment.piece);
        }
      }
      break;
    case SplitBehavior::kContiguous:
      for (const Segment& segment : segments) {
        if (segment.is_match == last_was_match && out.size() > n_before) {
          out.back().end = segment.piece.end;
        } else {
          out.push_back(segment.piece);
        }
        last_was_match = segment.is_match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const Segment& segment : segments) {
        if (segment.is_match && !last_was_match && out.size() > n_before) {
          out.back().end = segment.piece.end;
        } else {
          out.push_back(segment.piece);
        }
        last_was_match = segment.is_match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (std::size_t i = segments.size(); i-- > 0;) {
        if (segments[i].is_match && !last_was_match && out.size() > n_before) {
          out.back().begin = segments[i].piece.begin;
        } else {
          out.push_back(segments[i].piece);
        }
        last_was_match = segments[i].is_match;
      }
      std::reverse(out.begin() + static_cast<std::ptrdiff_t>(n_before), out.end());
      break;
  }
}

void apply_split(const PreTokenizerStep& spec,
                 const SplitRegex& pattern,
                 RegexScratch& scratch,
                 PieceList& list) {
  list.next_pieces.clear();
  std::vector<Segment> segments;
  for (const Piece piece : list.pieces) {
    if (spec.behavior == SplitBehavior::kIsolated) {
      for_each_segment(pattern, list.text, piece, scratch, [&](Piece part, bool) {
        list.next_pieces.push_back(part);
      });
      continue;
    }
    segments.clear();
    for_each_segment(pattern, list.text, piece, scratch, [&](Piece part, bool is_match) {
      segments.push_back({part, is_match != spec.is_inverted});
    });
    join_segments(segments, spec.behavior, list.next_pieces);
  }
  list.pieces.swap(list.next_pieces);
}

// Rebuilds text and pieces; write(piece text, is the first piece) appends to next_buffer.
template <class Write>
void rewrite_pieces(PieceList& list, const Write& write) {
  list.next_buffer.clear();
  for (Piece& piece : list.pieces) {
    const std::size_t begin = list.next_buffer.size();
    write(list.text.substr(piece.begin, piece.end - piece.begin), piece.begin == 0);
    piece = {begin, list.next_buffer.size()};
  }
  list.buffer.swap(list.next_buffer);
  list.text = list.buffer;
}

void apply_prefix_space(PieceList& list) {
  rewrite_pieces(list, [&](std::string_view piece, bool) {
    if (!piece.starts_with(' ')) {
      list.next_buffer.push_back(' ');
    }
    list.next_buffer.append(piece);
  });
}

void apply_metaspace(const PreTokenizerStep& spec, bool is_first_text, PieceList& list) {
  using Prepend = PreTokenizerStep::Prepend;
  rewrite_pieces(list, [&](std::string_view piece, bool is_first_piece) {
    const bool has_one = piece.starts_with(' ') || piece.starts_with(spec.replacement);
    const bool wants_one = spec.prepend == Prepend::kAlways ||
                           (spec.prepend == Prepend::kFirst && is_first_text && is_first_piece);
    if (wants_one && !has_one) {
      list.next_buffer.append(spec.replacement);
    }
    for (const char c : piece) {
      if (c == ' ') {
        list.next_buffer.append(spec.replacement);
      } else {
        list.next_buffer.push_back(c);
      }
    }
  });
}

}  // namespace

Result<PreTokenizer> PreTokenizer::create(const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer pre_tokenizer;
  for (const PreTokenizerStep& spec : steps) {
    Step step{spec, {}};
    if (spec.kind == PreTokenizerStep::Kind::kSplit) {
      Result<SplitRegex> pattern = SplitRegex::compile(spec.pattern);
      if (!pattern) {
        return propagate(pattern);
      }
      step.pattern.push_back(std::move(*pattern));
    }
    pre_tokenizer.steps_.push_back(std::move(step));
  }
  pre_tokenizer.goes_in_parts_ =
      !steps.empty() && steps[0].behavior == SplitBehavior::kIsolated &&
      std::all_of(steps.begin(), steps.end(), [](const PreTokenizerStep& step) {
        return step.kind == PreTokenizerStep::Kind::kSplit;
      });
  return pre_tokenizer;
}

bool PreTokenizer::keeps_text() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.spec.kind == PreTokenizerStep::Kind::kPrefixSpace ||
           (step.spec.kind == PreTokenizerStep::Kind::kSplit &&
            step.spec.behavior != SplitBehavior::kRemoved);
  });
}

std::size_t PreTokenizer::split(std::string_view text,
                                std::size_t begin,
                                bool is_first,
                                RegexScratch& scratch,
                                PieceList& list) const {
  list.text = text;
  std::size_t end = text.size();
  std::size_t n_done = 0;
  if (goes_in_parts_) {
    list.pieces.clear();
    end = for_each_segment(
        steps_[0].pattern.front(),
        text,
        {0, text.size()},
        scratch,
        [&](Piece part, bool) { list.pieces.push_back(part); },
        begin,
        kPartPieces);
    n_done = 1;
  } else {
    list.pieces.assign(1, {0, text.size()});
  }
  for (std::size_t i = n_done; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    switch (step.spec.kind) {
      case PreTokenizerStep::Kind::kSplit:
        apply_split(step.spec, step.pattern.front(), scratch, list);
        break;
      case PreTokenizerStep::Kind::kPrefixSpace:
        apply_prefix_space(list);
        break;
      case PreTokenizerStep::Kind::kMetaspace:
        apply_metaspace(step.spec, is_first, list);
        break;
    }
  }
  return end;
}

}  // namespace millrace

#pragma once
// The text side of one sequence: tokens become text, stop strings are found wherever they lie
// across tokens, and what may still turn out to be part of one is held back. Engine thread.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/token_stream.h"
#include "text/detokenizer.h"

namespace millrace {

class Tokenizer;

// Finds the first of several strings in a text that arrives in pieces: the one that ends first, of
// those the longest. So the result does not depend on how the text is cut into pieces. Each byte
// costs amortised O(1) per string (Knuth, Morris, Pratt).
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> strings);

  // True when a string ends at this byte; matched() tells which.
  bool push(char byte);
  const std::string& matched() const { return strings_[matched_]; }
  // Bytes at the end of the text that begin one of the strings.
  size_t n_held() const;
  bool is_empty() const { return strings_.empty(); }

 private:
  std::vector<std::string> strings_;
  std::vector<std::vector<uint32_t>> borders_;  // of each prefix: its longest proper border
  std::vector<uint32_t> states_;                // bytes of each string matched so far
  size_t matched_ = 0;
};

// A token belongs to the answer when its text begins before the stop string does; a token that
// begins before and reaches into it keeps the text before it. Ids, log probabilities, usage and
// text are all what pop() and tail() give out, so they end at the same point.
class TextStream {
 public:
  // The end of the prompt completes a character that it left unfinished; none of it is shown.
  TextStream(const Tokenizer& tokenizer,
             std::span<const TokenId> prompt,
             std::vector<std::string> stop_strings);

  // The next token; its event's text is filled in here. True when a stop string is complete: the
  // answer has ended and everything that belongs to it can be popped. can_stop false: what it
  // holds does not count for stop strings (min_tokens).
  bool push(TokenEvent event, bool can_stop = true);

  // The answer ended for another reason: everything held back belongs to it.
  void finish();

  // The next token that certainly belongs to the answer.
  bool pop(TokenEvent& event);

  // After finish(): text of a character that stayed incomplete.
  const std::string& tail() const { return tail_; }
  bool has_matched() const { return has_matched_; }  // a stop string ended the answer
  const std::string& matched_stop() const { return matcher_.matched(); }
  int64_t n_popped() const { return n_popped_; }

 private:
  struct Held {
    TokenEvent event;
    int64_t begin = 0;  // of its text in the answer, bytes
  };

  void release_before(int64_t end);
  void cut(int64_t end);

  Detokenizer detokenizer_;
  StopMatcher matcher_;
  std::vector<Held> held_;  // [first_held_, n_ready_) may be popped, the rest is held back
  size_t first_held_ = 0;
  size_t n_ready_ = 0;
  int64_t n_bytes_ = 0;  // of the answer so far
  int64_t n_popped_ = 0;
  bool has_matched_ = false;
  std::string tail_;
};

}  // namespace millrace

#pragma once
// A compiled pre-tokenizer pattern. PCRE2 is known to split_regex.cpp alone. The pattern is
// immutable and shared by threads; a RegexScratch belongs to one thread at a time.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

class RegexScratch {
 public:
  RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;
  ~RegexScratch();

 private:
  friend class SplitRegex;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

class SplitRegex {
 public:
  // The dialect is Oniguruma's as Hugging Face files use it: \s is White_Space, \w is Alphabetic,
  // M, Nd, Pc; (?i:...) folds ASCII letters only. What the two engines read differently (nested
  // classes, &&, possessive intervals) is refused with kUnsupported.
  static Result<SplitRegex> compile(std::string_view pattern);
  SplitRegex(SplitRegex&&) noexcept;
  SplitRegex& operator=(SplitRegex&&) noexcept;
  ~SplitRegex();

  struct Match {
    std::size_t begin = std::string_view::npos;  // npos: none
    std::size_t end = std::string_view::npos;
  };
  // The first match at or after `start`; `text` is valid UTF-8. A pattern that exceeds its limits
  // (only a hostile one can) finds nothing more.
  Match find(std::string_view text, std::size_t start, RegexScratch& scratch) const;

 private:
  struct Code;
  explicit SplitRegex(std::unique_ptr<const Code> code);

  std::unique_ptr<const Code> code_;
};

// A pattern that matches the text itself.
std::string escape_pattern(std::string_view text);

// The pattern in PCRE2's dialect; public for its test.
Result<std::string> rewrite_for_pcre2(std::string_view pattern);

}  // namespace millrace

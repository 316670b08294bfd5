#include "text/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <vector>

#include "base/check.h"
#include "base/log.h"

namespace millrace {
namespace {

// Enough for a megabyte in one match of any shipped pattern; what a hostile pattern may burn.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr std::size_t kJitStackStart = 64 << 10;
constexpr std::size_t kJitStackLimit = 8 << 20;

// PCRE2's \s and \w differ from Unicode's White_Space and Alphabetic, so they are spelled out.
constexpr std::string_view kWhiteSpace =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";
constexpr std::string_view kNotWhiteSpaceInClass = "\\P{Xsp}\\x{180e}";
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Walks a pattern once, copying what both dialects read alike.
class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const Result<bool> step = in_class_ ? take_in_class() : take();
      if (!step) {
        return propagate(step);
      }
    }
    if (in_class_) {
      return refuse("a class without its end");
    }
    return std::move(out_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void copy(std::size_t n) {
    out_.append(pattern_.substr(at_, n));
    at_ += n;
  }
  void replace(std::size_t n, std::string_view by) {
    out_.append(by);
    at_ += n;
  }
  tl::unexpected<Error> refuse(std::string_view what) const {
    return fail(
        ErrorCode::kUnsupported, "[tokenizer] pattern \"{}\": {} is not supported", pattern_, what);
  }

  Result<bool> take() {
    switch (peek()) {
      case '\\':
        return take_escape();
      case '[':
        open_class();
        return true;
      case '(':
        return open_group();
      case ')':
        if (!folds_.empty()) {
          folds_.pop_back();
        }
        copy(1);
        return true;
      case '}':
        if (peek(1) == '+') {
          return refuse("+ after an interval");
        }
        copy(1);
        return true;
      case '{':
        replace(1, peek(1) == ',' ? "{0" : "{");
        return true;
      default:
        if (is_ascii_letter(peek()) && folds()) {
          const char lower = static_cast<char>(peek() | 0x20);
          const char upper = static_cast<char>(lower & ~0x20);
          replace(1, std::string{'[', lower, upper, ']'});
        } else {
          copy(1);
        }
        return true;
    }
  }

  Result<bool> take_escape() {
    switch (peek(1)) {
      case 's':
        replace(2, "[" + std::string(kWhiteSpace) + "]");
        return true;
      case 'S':
        replace(2, "[^" + std::string(kWhiteSpace) + "]");
        return true;
      case 'w':
        replace(2, "[" + std::string(kWord) + "]");
        return true;
      case 'W':
        replace(2, "[^" + std::string(kWord) + "]");
        return true;
      default:
        return copy_escape();
    }
  }

  // Escapes that both dialects read alike; anything else is refused rather than guessed.
  Result<bool> copy_escape() {
    const char next = peek(1);
    if (next == 'p' || next == 'P' || next == 'x') {
      const std::size_t end = pattern_.find('}', at_);
      if (peek(2) != '{' || end == std::string_view::npos) {
        return refuse(std::string("\\") + next + " without braces");
      }
      copy(end + 1 - at_);
      return true;
    }
    constexpr std::string_view kSame = "rntfvdDuAz";
    if (is_ascii_letter(next) && kSame.find(next) == std::string_view::npos) {
      return refuse(std::string("\\") + next);
    }
    if (next == 'u') {  // \u2581 is spelled \x{2581}
      if (at_ + 6 > pattern_.size()) {
        return refuse("\\u");
      }
      replace(6, "\\x{" + std::string(pattern_.substr(at_ + 2, 4)) + "}");
      return true;
    }
    copy(2);
    return true;
  }

  void open_class() {
    in_class_ = true;
    const bool is_negated = peek(1) == '^';
    copy(is_negated ? 2 : 1);
    if (peek() == ']') {  // a bracket right at the start is itself
      replace(1, "\\]");
    }
  }

  Result<bool> take_in_class() {
    if (folds() && is_ascii_letter(peek())) {
      return refuse("a class under (?i:");
    }
    if (peek() == '[') {
      return refuse("a class inside a class");
    }
    if (peek() == '&' && peek(1) == '&') {
      return refuse("&& inside a class");
    }
    if (peek() == ']') {
      in_class_ = false;
      copy(1);
      return true;
    }
    if (peek() != '\\') {
      copy(1);
      return true;
    }
    switch (peek(1)) {
      case 's':
        replace(2, kWhiteSpace);
        return true;
      case 'S':
        replace(2, kNotWhiteSpaceInClass);
        return true;
      case 'w':
        replace(2, kWord);
        return true;
      case 'W':
        return refuse("\\W inside a class");
      default:
        return copy_escape();
    }
  }

  Result<bool> open_group() {
    if (pattern_.substr(at_, 4) == "(?i:") {
      folds_.push_back(true);
      replace(4, "(?:");
      return true;
    }
    folds_.push_back(folds());
    if (peek(1) != '?') {
      copy(1);
      return true;
    }
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (pattern_.substr(at_, kind.size()) == kind) {
        copy(kind.size());
        return true;
      }
    }
    return refuse("this kind of group");
  }

  bool folds() const { return !folds_.empty() && folds_.back(); }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<bool> folds_;  // one for each open group: does it ignore the case of ASCII letters
  bool in_class_ = false;
};

}  // namespace

std::string escape_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_plain = is_ascii_letter(c) || (c >= '0' && c <= '9') || (c & 0x80) != 0;
    if (!is_plain) {
      pattern.push_back('\\');
    }
    pattern.push_back(c);
  }
  return pattern;
}

Result<std::string> rewrite_for_pcre2(std::string_view pattern) {
  return Rewriter(pattern).run();
}

struct RegexScratch::Parts {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;

  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

RegexScratch::RegexScratch() : parts_(std::make_unique<Parts>()) {
  parts_->data = pcre2_match_data_create(1, nullptr);
  parts_->context = pcre2_match_context_create(nullptr);
  parts_->stack = pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr);
  MR_CHECK(parts_->data != nullptr && parts_->context != nullptr, "out of memory");
  pcre2_set_match_limit(parts_->context, kMatchLimit);
  pcre2_jit_stack_assign(parts_->context, nullptr, parts_->stack);
}

RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;
RegexScratch::~RegexScratch() = default;

struct SplitRegex::Code {
  pcre2_code* code = nullptr;
  bool is_jit = false;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

SplitRegex::SplitRegex(std::unique_ptr<const Code> code) : code_(std::move(code)) {}
SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;
SplitRegex::~SplitRegex() = default;

Result<SplitRegex> SplitRegex::compile(std::string_view pattern) {
  const Result<std::string> rewritten = rewrite_for_pcre2(pattern);
  if (!rewritten) {
    return propagate(rewritten);
  }
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  MR_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten->data()),
                             rewritten->size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error,
                             &offset,
                             context.get());
  if (code->code == nullptr) {
    char reason[128] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(reason), sizeof(reason));
    return fail(ErrorCode::kUnsupported, "[tokenizer] pattern \"{}\": {}", pattern, reason);
  }
  code->is_jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  return SplitRegex(std::move(code));
}

SplitRegex::Match SplitRegex::find(std::string_view text,
                                   std::size_t start,
                                   RegexScratch& scratch) const {
  RegexScratch::Parts& parts = *scratch.parts_;
  const auto match = code_->is_jit ? pcre2_jit_match : pcre2_match;
  const int rc = match(code_->code,
                       reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(),
                       start,
                       PCRE2_NO_UTF_CHECK,
                       parts.data,
                       parts.context);
  if (rc < 0) {
    if (rc != PCRE2_ERROR_NOMATCH) {
      log_warning("[tokenizer] a pattern gave up on a text of {} bytes: {}", text.size(), rc);
    }
    return {};
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(parts.data);
  return {bounds[0], bounds[1]};
}

}  // namespace millrace

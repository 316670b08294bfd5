#include "text/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <algorithm>
#include <limits>

#include "base/log.h"

namespace millrace {
namespace {

const icu::Normalizer2* unicode_form(NormalizerStep::Kind kind, UErrorCode& status) {
  return kind == NormalizerStep::Kind::kNfc ? icu::Normalizer2::getNFCInstance(status)
                                            : icu::Normalizer2::getNFKCInstance(status);
}

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

// False when the text is already in the form.
bool to_unicode_form(NormalizerStep::Kind kind, std::string_view text, std::string& out) {
  if (is_ascii(text)) {
    return false;
  }
  if (text.size() > std::numeric_limits<int32_t>::max()) {
    log_warning("[tokenizer] a text of {} bytes is too long to normalize", text.size());
    return false;
  }
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* form = unicode_form(kind, status);
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  if (form->isNormalizedUTF8(piece, status) && U_SUCCESS(status)) {
    return false;
  }
  icu::StringByteSink<std::string> sink(&out);
  status = U_ZERO_ERROR;
  form->normalizeUTF8(0, piece, sink, nullptr, status);
  if (U_FAILURE(status)) {
    log_warning(
        "[tokenizer] ICU could not normalize {} bytes: {}", text.size(), u_errorName(status));
    return false;
  }
  return true;
}

bool replace_all(std::string_view text, const NormalizerStep& step, std::string& out) {
  std::size_t at = text.find(step.pattern);
  if (at == std::string_view::npos) {
    return false;
  }
  std::size_t done = 0;
  while (at != std::string_view::npos) {
    out.append(text.substr(done, at - done)).append(step.content);
    done = at + step.pattern.size();
    at = text.find(step.pattern, done);
  }
  out.append(text.substr(done));
  return true;
}

}  // namespace

Result<Normalizer> Normalizer::create(std::vector<NormalizerStep> steps) {
  for (const NormalizerStep& step : steps) {
    using Kind = NormalizerStep::Kind;
    if (step.kind == Kind::kReplace && step.pattern.empty()) {
      return fail(ErrorCode::kUnsupported, "[tokenizer] Replace normalizer with an empty pattern");
    }
    if (step.kind == Kind::kNfc || step.kind == Kind::kNfkc) {
      UErrorCode status = U_ZERO_ERROR;
      unicode_form(step.kind, status);
      if (U_FAILURE(status)) {
        return fail(ErrorCode::kInternal,
                    "[tokenizer] ICU has no normalization data: {}",
                    u_errorName(status));
      }
    }
  }
  Normalizer normalizer;
  normalizer.steps_ = std::move(steps);
  return normalizer;
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer) const {
  std::string next;
  for (const NormalizerStep& step : steps_) {
    next.clear();
    bool is_changed = true;
    switch (step.kind) {
      case NormalizerStep::Kind::kNfc:
      case NormalizerStep::Kind::kNfkc:
        is_changed = to_unicode_form(step.kind, text, next);
        break;
      case NormalizerStep::Kind::kPrepend:
        next.append(step.content).append(text);
        break;
      case NormalizerStep::Kind::kReplace:
        is_changed = replace_all(text, step, next);
        break;
    }
    if (is_changed) {
      buffer.swap(next);
      text = buffer;
    }
  }
  return text;
}

}  // namespace millrace

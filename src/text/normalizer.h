#pragma once
// Applies the normalizer steps of a TokenizerSpec. ICU is known to normalizer.cpp alone.
// Immutable, any thread.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace millrace {

class Normalizer {
 public:
  static Result<Normalizer> create(std::vector<NormalizerStep> steps);

  // `text` is valid UTF-8 and not empty. Gives `text` itself when nothing changes, else a view of
  // `buffer`.
  std::string_view apply(std::string_view text, std::string& buffer) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace millrace

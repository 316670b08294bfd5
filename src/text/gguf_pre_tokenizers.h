#pragma once
// What the names in tokenizer.ggml.pre stand for. Plain data, any thread.

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace millrace {

struct GgufPreTokenizer {
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  bool ignores_merges = false;
  bool adds_bos = false;  // unless tokenizer.ggml.add_bos_token says otherwise
};

// kUnsupported names a pre-tokenizer that is not known: nothing is guessed.
Result<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name);

// GPT-2's own pattern, which ByteLevel pre-tokenizers use.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace millrace

#pragma once
// A made-up byte-level BPE vocabulary of any size, for random models. Any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "formats/gguf_writer.h"

namespace millrace {

// 256 byte tokens, merged tokens each of which joins two earlier ones, control tokens where the
// family has them, and unused tokens up to the size.
struct SynthVocabulary {
  std::string pre;  // tokenizer.ggml.pre
  std::vector<std::string> tokens;
  std::vector<int32_t> types;       // 1 normal, 3 control, 5 unused
  std::vector<std::string> merges;  // "left right", in order of priority
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId padding = kNoToken;
  bool add_bos = false;
};

// n_tokens >= kMinSynthTokens (synth.h).
SynthVocabulary make_synth_vocabulary(const std::string& pre, int n_tokens);

// The tokenizer.* keys, with a chat template.
void add_tokenizer_metadata(const SynthVocabulary& vocabulary, GgufBuilder& builder);

}  // namespace millrace

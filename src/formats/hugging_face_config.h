#pragma once
// The config.json of a dense decoder, as transformers writes it, in GGUF's terms. Pure function,
// any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/hugging_face_coding.h"

namespace millrace {

struct HuggingFaceConfig {
  std::vector<std::byte> metadata;  // a GGUF file without tensors whose keys say the same
  std::vector<float> rope_factors;  // values of rope_freqs.weight; empty: there is none
  // TensorView::split_head_rows of q and k; 0: the architecture wants them as they are.
  int64_t split_head_rows = 0;
  int64_t vocab_size = 0;
  std::optional<bool> is_tied;             // tie_word_embeddings; absent: not said
  std::optional<bool> has_attention_bias;  // attention_bias; absent: not said
  WeightCoding coding;
};

// `name` is for messages, which name the key in question. kUnsupported: an architecture that is not
// known (known ones are listed), or a setting that changes the computation in a way that is not
// done; kCorrupt: a key is missing, or has a wrong type or value.
Result<HuggingFaceConfig> read_hugging_face_config(std::string_view json, const std::string& name);

}  // namespace millrace

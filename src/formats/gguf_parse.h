#pragma once
// Parses and checks one GGUF file; gguf.h puts shards together. Any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "tensor/tensor_view.h"

namespace millrace {

struct ParsedGguf {
  uint32_t version = 0;
  std::vector<GgufEntry> entries;   // unique keys
  std::vector<TensorView> tensors;  // unique names; data inside `bytes`, no two overlapping
};

// `name` is for messages. The result refers to `bytes`, whose address is a multiple of 16.
Result<ParsedGguf> parse_gguf_file(std::span<const std::byte> bytes, const std::string& name);

}  // namespace millrace

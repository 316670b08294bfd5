#pragma once
// Test support: the models of tests/goldens (tools/golden_logits.py), their logits, and their GGUF
// files, which a test may change before it builds them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/types.h"
#include "tensor/dtype.h"

namespace millrace::test {

struct GoldenTensor {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;  // innermost first
  std::vector<std::byte> bytes;
};

struct GoldenModel {
  std::map<std::string, std::variant<uint32_t, float, std::string>> metadata;
  std::vector<GoldenTensor> tensors;
  std::vector<TokenId> tokens;
  std::vector<size_t> rows;   // of tokens, whose logits the file holds
  std::vector<float> logits;  // [rows, vocabulary]

  GoldenTensor* find(const std::string& name);
  Buffer gguf() const;  // the file, for parse_gguf
};

std::vector<std::string> golden_names();
// Weights are a pure function of (seed, tensor name, index), computed here apart from the script.
GoldenModel read_golden(const std::string& name);

}  // namespace millrace::test

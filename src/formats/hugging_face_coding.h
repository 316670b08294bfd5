#pragma once
// Quantised weights of Hugging Face folders: what config.json says of them, and the matrices that
// their tensors make together. Any thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/safetensors.h"
#include "tensor/coded_matrix.h"
#include "tensor/tensor_view.h"

namespace millrace {

class JsonFields;

struct WeightCoding {
  enum class Kind : uint8_t { kNone, kFp8, kAwq, kGptq };
  Kind kind = Kind::kNone;
  bool has_blocks = false;        // kFp8: scales of 128 x 128 blocks
  int group_size = 0;             // kAwq, kGptq: 32, 64 or 128
  uint32_t zero_offset = 0;       // kGptq: CodedMatrix::zero_offset
  bool has_order = false;         // kGptq: desc_act: g_idx has to say that it changes nothing
  bool may_have_qkv_bias = true;  // kAwq, kGptq: else zeros there are no bias
};

// quantization_config of config.json. What is not known is refused by name.
WeightCoding read_weight_coding(JsonFields& config);

// Tensors of the folder by name; null when there is none.
using FindTensor = std::function<const SafetensorsTensor*(const std::string& name)>;

// The type of values that need no scale. Errors as of coded_matrix.
Result<DType> plain_type(const SafetensorsTensor& tensor);

// What a tensor is in a folder of this coding: a matrix by itself, the codes of one, or a part of
// one that is read with its codes.
enum class TensorRole : uint8_t { kPlain, kCodes, kPart };
TensorRole tensor_role(const WeightCoding& coding,
                       const SafetensorsTensor& tensor,
                       const FindTensor& find);

// The matrix of which the tensor has the codes: all but its name and split_head_rows. It refers to
// `kept`, where what it needs besides is put. Errors say what is wrong without naming a file:
// kCorrupt, kUnsupported.
Result<TensorView> coded_matrix(const WeightCoding& coding,
                                const SafetensorsTensor& codes,
                                const FindTensor& find,
                                std::deque<CodedMatrix>& kept);

// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.qweight".
std::string module_of(std::string_view tensor);

}  // namespace millrace

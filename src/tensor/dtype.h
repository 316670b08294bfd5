#pragma once
// The table of tensor types: one row a type, with its block shape and scalar conversions.
// Immutable; any thread.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace millrace {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  // Codes of safetensors files, whose scales lie apart (tensor/coded_matrix.h); no types of GGUF.
  kF8_E4M3,
  kInt4,
};

struct DTypeInfo {
  DType dtype;
  const char* name;    // "Q4_K"
  uint32_t ggml_id;    // the number in a GGUF tensor entry
  uint32_t file_type;  // the number of general.file_type when most tensors have this type
  int block_size;      // values
  int block_bytes;
  // n is a multiple of block_size; blocks is aligned as its struct in blocks.h, or at all for F32,
  // F16 and BF16. Null for codes whose scales lie apart.
  void (*decode)(const void* blocks, float* values, int64_t n);
  // Any input is accepted; a NaN becomes 0 in the quantised types. Null: cannot be encoded.
  void (*encode)(const float* values, void* blocks, int64_t n);

  // Bytes of a row of n values; n is a multiple of block_size.
  int64_t row_bytes(int64_t n) const { return n / block_size * block_bytes; }
};

const DTypeInfo& dtype_info(DType dtype);
std::span<const DTypeInfo> all_dtypes();  // of GGUF files

// kUnsupported names a type that GGUF knows and Millrace does not ("IQ2_XS"); kCorrupt: no such id.
Result<DType> dtype_from_ggml(uint32_t ggml_id);
// Names as in the table, case ignored; kInvalidArgument lists them.
Result<DType> dtype_from_name(std::string_view name);

}  // namespace millrace

#pragma once
// A named tensor that lies in memory owned by someone else (a mapped file). Immutable; any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/dtype.h"

namespace millrace {

struct CodedMatrix;

struct TensorView {
  std::string_view name;
  DType dtype = DType::kF32;
  int n_dims = 1;                            // 1..4
  std::array<int64_t, 4> shape{1, 1, 1, 1};  // innermost first, as in GGUF; 1 above n_dims
  std::span<const std::byte> data;           // exactly n_rows() * row_bytes(), contiguous
  // Of q and k as Hugging Face has them: of every head, which has this many rows, the first values
  // of all rotated pairs come before all second ones, where GGUF has pair behind pair. 0: rows lie
  // in their order.
  int64_t split_head_rows = 0;
  // What turns the codes of F8_E4M3 and INT4 into numbers, and how they lie in data, where row()
  // has no meaning for INT4. Null for all other types.
  const CodedMatrix* coded = nullptr;

  int64_t n_in() const { return shape[0]; }  // row length, K
  int64_t n_rows() const { return shape[1] * shape[2] * shape[3]; }
  int64_t n_values() const { return shape[0] * n_rows(); }
  int64_t row_bytes() const { return dtype_info(dtype).row_bytes(shape[0]); }
  // Where row r lies, counted in rows.
  int64_t stored_row(int64_t r) const {
    if (split_head_rows == 0) return r;
    const int64_t i = r % split_head_rows;
    return r - i + i % 2 * (split_head_rows / 2) + i / 2;
  }
  const std::byte* row(int64_t r) const { return data.data() + stored_row(r) * row_bytes(); }
};

}  // namespace millrace

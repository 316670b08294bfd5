#pragma once
// Matrices whose files keep what turns codes into numbers apart from the codes: those of
// safetensors. All but scales views of the files; immutable; any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

// How the codes of a matrix [n_out, n_in] lie, which TensorView::data holds.
enum class CodeLayout : uint8_t {
  kRows,  // [n_out][n_in] bytes
  // [n_in][n_out / 8] words of eight outputs, those of AWQ's gemm kernels: from the low bits up
  // 0 2 4 6 1 3 5 7
  kAwq,
  kGptq,  // [n_in / 8][n_out] words of eight inputs, in their order from the low bits up
};

struct CodedMatrix {
  CodeLayout layout = CodeLayout::kRows;

  // F8_E4M3: value = code * scale of its rectangle of scale_rows by scale_columns, fewer at the
  // ends.
  std::vector<float> scales;  // [n_out / scale_rows][n_in / scale_columns], both rounded up
  int64_t scale_rows = 0;
  int64_t scale_columns = 0;

  // INT4: value = scale * (code - zero), by output and by group of inputs.
  int group_size = 0;
  std::span<const std::byte> group_scales;  // [n_in / group_size][n_out] f16
  // [n_in / group_size][n_out / 8] words, whose eight outputs lie as the layout has them once this
  // has been added to the word, modulo 2^32.
  std::span<const std::byte> group_zeros;
  uint32_t zero_offset = 0;
};

// The output whose code the bits 4 i up to 4 i + 3 of an AWQ word hold, of its eight.
inline constexpr int kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};

}  // namespace millrace

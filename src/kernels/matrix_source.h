#pragma once
// Quantised matrices whose types no GGUF file has, as LinearWeights::pack takes them. Plain views:
// the memory is the caller's, and only read until pack returns.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace::kernels {

// 8-bit floats: value (n, k) is E4M3 codes[n][k] times the scale of its rectangle. The format is
// that of OCP's "fn": no infinities, 0x7f and 0xff are no numbers.
struct Fp8Matrix {
  std::string_view name;  // for messages
  int64_t n_out = 0;
  int64_t n_in = 0;
  std::span<const std::byte> codes = {};  // [n_out][n_in]
  // [n_out / scale_rows][n_in / scale_columns], both rounded up: of scale_rows rows by
  // scale_columns columns each, fewer at the ends. 128 x 128: weight_scale_inv of block
  // quantisation; 1 x n_in: a scale per output channel; n_out x n_in: one of the tensor.
  // scale_columns is a multiple of 128 unless it covers n_in.
  std::span<const float> scales = {};
  int64_t scale_rows = 128;
  int64_t scale_columns = 128;
  // Row n of the product is row row_order[n] of codes and scales; empty: row n. For weights whose
  // rows lie in another order in the file, which then need no copy.
  std::span<const int64_t> row_order = {};
};

// 4-bit integers in groups of K: value (n, k) is scale * (code - zero), with the scale and the zero
// point of row n and group k / group_size. Without zero points in the file, zero is what its codes
// are shifted by, usually 8.
struct Int4Matrix {
  std::string_view name;  // for messages
  int64_t n_out = 0;
  int64_t n_in = 0;      // a multiple of group_size
  int group_size = 128;  // 32, 64 or 128
  // [n_out][n_in / 2], an even k in the low half of its byte.
  std::span<const std::byte> codes = {};
  // [n_out][n_in / group_size] f16. Those of a file in bf16 are exact in it from 2^-17 to 65504.
  std::span<const uint16_t> scales = {};
  std::span<const uint8_t> zeros = {};  // likewise; any value
};

}  // namespace millrace::kernels

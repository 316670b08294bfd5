#pragma once
// Residual addition and RMSNorm in one pass over a row. Any thread.
// Included by the instruction-set units, so only C headers here.

#include <stdint.h>

namespace millrace::kernels {

enum class Isa : uint8_t;  // kernels/isa.h

// h = x + (delta + delta_bias); y = h / sqrt(mean(h^2) + eps) * weight. All rows have n values.
struct ResidualNorm {
  const float* x;
  const float* delta;       // null: h = x
  const float* delta_bias;  // null: none
  const float* weight;
  float* h;  // null: not wanted; may not be x
  float* y;
  int64_t n;
  float eps;
};

// Source: Zhang and Sennrich, arXiv 1910.07467.
void residual_norm(Isa isa, const ResidualNorm& job);

}  // namespace millrace::kernels

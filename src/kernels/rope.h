#pragma once
// What happens to one head of q or k between the projection and attention. Any thread.
// Included by the instruction-set units, so only C headers here.

#include <stdint.h>

namespace millrace::kernels {

enum class Isa : uint8_t;  // kernels/isa.h

// In place: x += bias; RMSNorm over the head; rotation by the position's angles; times scale.
struct HeadRotation {
  float* x;                  // [head_dim]
  const float* bias;         // [head_dim], null: none
  const float* norm_weight;  // [head_dim], null: no norm
  const float* cosines;      // [head_dim / 2] of this position
  const float* sines;
  int32_t head_dim;
  bool is_half_split;  // pairs (i, i + head_dim/2); otherwise (2i, 2i + 1)
  float eps;
  float scale;
};

// Source: Su et al., arXiv 2104.09864.
void rotate_head(Isa isa, const HeadRotation& job);

}  // namespace millrace::kernels

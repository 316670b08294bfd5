#pragma once
// The gated activation of the feed-forward block. Any thread.

#include <stdint.h>

namespace millrace::kernels {

enum class Isa : uint8_t;  // kernels/isa.h

// out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]; all are [n], and out may be gate or up.
// Source: Shazeer, arXiv 2002.05202.
void swiglu(Isa isa, const float* gate, const float* up, int64_t n, float* out);

}  // namespace millrace::kernels

#pragma once
// The kinds of multiply-adds that kernels spend their time on. Included by the instruction-set
// units, so only C headers here.

#include <stdint.h>

namespace millrace::kernels {

// Dot products: f32 fma, 16-bit pairs, unsigned 8-bit times signed 8-bit quads, bf16 pairs.
enum class DotKind : uint8_t { kF32, kInt16, kInt8, kBF16 };
inline constexpr int kDotKinds = 4;

}  // namespace millrace::kernels

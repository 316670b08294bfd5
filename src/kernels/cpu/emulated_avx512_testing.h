#pragma once
// The AVX-512 tiers with every instruction of them computed by SIMDe: what they do, on an AVX2
// machine. Null where SIMDe's headers are not installed.

#include "kernels/kernel_table.h"

namespace millrace::kernels {

const KernelTable* emulated_avx512_kernels();
const KernelTable* emulated_avx512_bf16_kernels();

}  // namespace millrace::kernels

#pragma once
// The AVX-512 tier with every instruction of it computed by SIMDe: what the tier does, on an AVX2
// machine. Null where SIMDe's headers are not installed.

#include "kernels/kernel_table.h"

namespace millrace::kernels {

const KernelTable* emulated_avx512_kernels();

}  // namespace millrace::kernels

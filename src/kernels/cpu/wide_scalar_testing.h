#pragma once
// The portable code at 16 lanes: what the templates do on an AVX-512 machine, on any machine.

#include "kernels/kernel_table.h"

namespace millrace::kernels {

extern const KernelTable kWideScalarKernels;

}  // namespace millrace::kernels

// What the AVX-512 tier with BF16 does otherwise than kernels_avx512.cpp; its flags are in
// src/CMakeLists.txt.
#include "kernels/cpu/attention_bf16.inl.h"
#include "kernels/cpu/isa_avx512_bf16.h"
#include "kernels/cpu/linear_bf16.inl.h"
#include "kernels/cpu/linear_fp8_bf16.inl.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {

constexpr Bf16Kernels kAvx512Bf16Kernels = {
    .linear_bf16 = linear_panels<Avx512Bf16, Bf16Panel<Avx512Bf16>>,
    .linear_fp8 = linear_panels<Avx512Bf16, Fp8Bf16Panel<Avx512Bf16>>,
    .attend = attend<Avx512Bf16, Bf16Attention<Avx512Bf16>>,
};

}  // namespace millrace::kernels

// The AVX-512 tier with BF16, compiled like kernels_avx512_bf16.cpp.
#include "kernels/cpu/isa_avx512_bf16.h"
#include "kernels/cpu/probes.inl.h"

namespace millrace::kernels {

constexpr MachineProbe kAvx512Bf16Probe = make_bf16_probe<Avx512Bf16>();

}  // namespace millrace::kernels

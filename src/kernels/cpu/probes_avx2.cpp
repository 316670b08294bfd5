// The AVX2 tier, compiled like kernels_avx2.cpp.
#include "kernels/cpu/isa_avx2.h"
#include "kernels/cpu/probes.inl.h"

namespace millrace::kernels {

constexpr MachineProbe kAvx2Probe = make_probe<Avx2>();

}  // namespace millrace::kernels

// The AVX-512 tier, compiled like kernels_avx512.cpp.
#include "kernels/cpu/isa_avx512.h"
#include "kernels/cpu/probes.inl.h"

namespace millrace::kernels {

constexpr MachineProbe kAvx512Probe = make_probe<Avx512>();

}  // namespace millrace::kernels
